// Ops are checked in the order of RL_OPS.
#include "ops/op_table.h"

#include "core/error.h"

namespace rl {

void require_complete(const OpTable& table, const char* device) {
  const auto require = [device](bool has, const char* name) {
    if (!has) throw Error(Code::kUnsupported, str("the device ", device, " has no op ", name));
  };
#define RL_OP_REQUIRE(name, Args) require(table.name != nullptr, #name);
  RL_OPS(RL_OP_REQUIRE)
#undef RL_OP_REQUIRE
}

}  // namespace rl
