// Norms of ops as parameters of kernels.
#pragma once
#include "ops/cuda/kernels/rows/norm_params.h"
#include "ops/forward_ops.h"

namespace rl::cuda {

inline NormParams norm_params(const RowNorm& norm) { return {norm.weight, norm.eps, norm.kind}; }

}  // namespace rl::cuda
