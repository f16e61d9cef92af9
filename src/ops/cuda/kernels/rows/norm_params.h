// A norm as parameters of kernels have it. The arithmetic is in norm_row.h.
#pragma once
#include "ops/rms_norm.h"

namespace rl::cuda {

struct NormParams {
  const float* weight;  // (C), or null: no norm
  float eps;
  NormWeight kind;
};

}  // namespace rl::cuda
