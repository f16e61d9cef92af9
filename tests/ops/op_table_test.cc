// A device that lacks an op is refused when its Compute is made.
#include "ops/op_table.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/compute.h"
#include "ops/cpu/cpu_ops.h"

namespace rl {
namespace {

class Abacus final : public Device {
 public:
  const char* name() const override { return "abacus"; }
  bool has_bf16() const override { return false; }
  PackedShape plan_packed(const SliceRule&, Dtype) const override { return {}; }
  uint64_t workspace_bytes(int) const override { return 0; }
  std::unique_ptr<Compute> make_compute(Executor&, Dtype, ArenaLedger*) const override {
    return nullptr;
  }
};
const Abacus kAbacus;

class TestCompute final : public Compute {
 public:
  explicit TestCompute(const OpTable& ops) : Compute(ops, {kAbacus, Dtype::kF32, 1, nullptr}) {}
  bool exact() const override { return true; }
  const std::string& implementation() const override { return name_; }

 private:
  const std::string name_ = "beads";
};

std::string refusal_of(const OpTable& table) {
  try {
    const TestCompute compute(table);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, Code::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(OpTable, ADeviceWithEveryOpIsAccepted) { EXPECT_EQ(refusal_of(cpu_ops()), ""); }

TEST(OpTable, AMissingOpIsNamedWhenTheComputeIsMade) {
  OpTable table = cpu_ops();
  table.rope_rows_backward = nullptr;
  const std::string refusal = refusal_of(table);
  EXPECT_NE(refusal.find("abacus"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("rope_rows_backward"), std::string::npos) << refusal;
}

TEST(OpTable, EveryOpIsRequired) {
#define RL_OP_MISSING(name, Args)                                             \
  {                                                                           \
    OpTable table = cpu_ops();                                                \
    table.name = nullptr;                                                     \
    EXPECT_NE(refusal_of(table).find(" " #name), std::string::npos) << #name; \
  }
  RL_OPS(RL_OP_MISSING)
#undef RL_OP_MISSING
}

}  // namespace
}  // namespace rl
