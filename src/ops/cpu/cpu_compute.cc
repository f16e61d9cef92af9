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

CpuCompute::CpuCompute(Executor& executor, Dtype dtype, ArenaLedger* ledger)
    : Compute(cpu_ops(), {"cpu", dtype, executor.num_threads(), ledger}),
      executor_(executor),
      matmul_(executor, dtype, ledger) {}

std::unique_ptr<Compute> make_cpu_compute(Executor& executor, Dtype dtype, ArenaLedger* ledger) {
  return std::make_unique<CpuCompute>(executor, dtype, ledger);
}

uint64_t cpu_workspace_bytes(int num_threads) { return Matmul::workspace_bytes(num_threads); }

namespace cpu {

void for_each_row(Compute& compute, const ForEachRowArgs& args) {
  cpu_of(compute).executor().parallel_for(args.count, args.task);
}

}  // namespace cpu
}  // namespace rl
