// The table of the CPU. An op of RL_OPS without a function here fails to link.
#include "ops/cpu/cpu_compute.h"

#include "ops/cpu/cpu_ops.h"

namespace rl {

const OpTable& cpu_ops() {
  static constexpr OpTable table = {
#define RL_OP_ENTRY(name, Args) .name = cpu::name,
      RL_OPS(RL_OP_ENTRY)
#undef RL_OP_ENTRY
  };
  return table;
}

namespace {

class CpuDevice final : public Device {
 public:
  const char* name() const override { return "cpu"; }
  bool has_bf16() const override { return cpu_has_bf16_dot(); }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override {
    return rl::plan_packed(rule, compute);
  }
  // Of 256 rows in bf16, gradients of logits then take 8 MiB. Smaller parts cost time: each is a
  // product, and an addition, of its own.
  int64_t vocabulary_part() const override { return 16384; }
  uint64_t workspace_bytes(int num_threads) const override {
    return Matmul::workspace_bytes(num_threads);
  }
  std::unique_ptr<Compute> make_compute(Executor& executor, Dtype dtype,
                                        ArenaLedger* ledger) const override {
    return std::make_unique<CpuCompute>(executor, dtype, ledger);
  }
};

}  // namespace

const Device& cpu_device() {
  static const CpuDevice device;
  return device;
}

CpuCompute::CpuCompute(Executor& executor, Dtype dtype, ArenaLedger* ledger)
    : Compute(cpu_ops(), {cpu_device(), dtype, executor.num_threads(), ledger}),
      executor_(executor),
      matmul_(executor, dtype, ledger) {}

std::unique_ptr<Compute> make_cpu_compute(Executor& executor, Dtype dtype, ArenaLedger* ledger) {
  return cpu_device().make_compute(executor, dtype, ledger);
}

uint64_t cpu_workspace_bytes(int num_threads) { return cpu_device().workspace_bytes(num_threads); }

}  // namespace rl
