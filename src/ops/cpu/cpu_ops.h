// The twins of the CPU: one function per op of RL_OPS, in the file of its kind (forward_cpu.cc,
// attend_cpu.cc, backward_cpu.cc, head_cpu.cc, sampling_cpu.cc, weights_cpu.cc, optimizer_cpu.cc).
#pragma once
#include "ops/op_table.h"

namespace rl {

const OpTable& cpu_ops();

namespace cpu {

#define RL_OP_DECLARE(name, Args) void name(Compute& compute, const Args& args);
RL_OPS(RL_OP_DECLARE)
#undef RL_OP_DECLARE

}  // namespace cpu
}  // namespace rl
