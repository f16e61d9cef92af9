// The table of the reference device, with a door in each row.
#include "guarded_device.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "guarded_memory.h"
#include "op_memory.h"

namespace rl::testing {
namespace guarded {
namespace {

using Open = GuardedMemory::Open;
using Closed = GuardedMemory::Closed;

template <typename Args>
void require_rules(const char* op, const Args& args) {
  const GuardedMemory& memory = GuardedMemory::instance();
  const auto device = [&](const void* pointer) {
    if (pointer != nullptr && !memory.has(pointer))
      throw Error(Code::kInternal, str("op ", op, ": a pointer is not memory of the device"));
  };
  const auto host = [&](const void* pointer) {
    if (memory.has(pointer))
      throw Error(Code::kInternal, str("op ", op, ": a span is not memory of the host"));
  };
  check_memory(device, host, args);
}

// How an op runs: as the reference has it, unless it calls back.
template <typename Args>
void run(void (*op)(Compute&, const Args&), Compute& compute, const Args& args) {
  const Open open;
  op(compute, args);
}

template <>
void run(void (*op)(Compute&, const ReadFloatsArgs&), Compute& compute, const ReadFloatsArgs& a) {
  if (a.read == nullptr) {
    const Open open;
    return op(compute, a);
  }
  for (const FloatRun& part : a.runs) {
    std::vector<float> values(static_cast<size_t>(part.count));
    (*a.read)(part.from, values);
    const Open open;
    std::ranges::copy(values, part.to);
  }
}

template <>
void run(void (*op)(Compute&, const PackRowsArgs&), Compute& compute, const PackRowsArgs& a) {
  const auto closed = [&](int64_t from, std::span<float> out) {
    const Closed door;
    (*a.read)(from, out);
  };
  const FloatReader read = closed;
  PackRowsArgs args = a;
  if (a.read != nullptr) args.read = &read;
  const Open open;
  op(compute, args);
}

#define RL_OP_GUARD(name, Args)                   \
  void name(Compute& compute, const Args& args) { \
    require_rules(#name, args);                   \
    run<Args>(&reference::name, compute, args);   \
  }
RL_OPS(RL_OP_GUARD)
#undef RL_OP_GUARD

}  // namespace
}  // namespace guarded

const OpTable& guarded_ops() {
  static constexpr OpTable table = {
#define RL_OP_ENTRY(name, Args) .name = guarded::name,
      RL_OPS(RL_OP_ENTRY)
#undef RL_OP_ENTRY
  };
  return table;
}

namespace {

class GuardedCompute final : public Compute {
 public:
  GuardedCompute(Dtype dtype, ArenaLedger* ledger)
      : Compute(guarded_ops(), {guarded_device(), dtype, 1, ledger}) {}
  bool exact() const override { return true; }
  const std::string& implementation() const override { return name_; }
  bool has_bytes(const void* data, uint64_t) override {
    return GuardedMemory::instance().has(data);
  }

 private:
  const std::string name_ = "guarded";
};

class GuardedDevice final : public Device {
 public:
  const char* name() const override { return "guarded"; }
  DeviceId id() const override { return kGuardedId; }
  bool has_bf16() const override { return true; }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override {
    return reference_device().plan_packed(rule, compute);
  }
  int64_t vocabulary_part() const override { return reference_device().vocabulary_part(); }
  uint64_t workspace_bytes(int) const override { return 0; }
  MemorySource* memory() const override { return &GuardedMemory::instance(); }
  std::unique_ptr<Compute> make_compute(Executor&, Dtype dtype,
                                        ArenaLedger* ledger) const override {
    return std::make_unique<GuardedCompute>(dtype, ledger);
  }
};

}  // namespace

const Device& guarded_device() {
  static const GuardedDevice device;
  return device;
}

}  // namespace rl::testing
