// The twins of the GPU: one function per op of RL_OPS. Each translates the arguments of a whole
// batch into launches of kernels (ops/cuda/kernels) and products.
//
// Which arguments are memory of the device: ops/op_table.h.
#pragma once
#include "ops/op_table.h"

namespace rl {

const OpTable& cuda_ops();

namespace cuda {

#define RL_OP_DECLARE(name, Args) void name(Compute& compute, const Args& args);
RL_OPS(RL_OP_DECLARE)
#undef RL_OP_DECLARE

}  // namespace cuda
}  // namespace rl
