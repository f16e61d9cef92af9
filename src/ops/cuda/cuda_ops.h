// The twins of the GPU: one function per op of RL_OPS. Each translates the arguments of a whole
// batch into launches of kernels (ops/cuda/kernels) and products.
//
// In the arguments of an op a span or a reference is memory of the host and a raw pointer memory of
// the device, except where the op's record says otherwise.
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
