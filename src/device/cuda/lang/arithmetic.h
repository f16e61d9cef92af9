// Arithmetic of kernels. Contraction is off (-fmad=false, -ffp-contract=off), so a fused
// multiply-add happens where fma_rn() is written and nowhere else. exp_of() and the like are the
// accurate functions of the toolkit, never their fast forms; their last bits differ between a GPU
// and the emulation.
#pragma once
#include <cmath>
#include <cstdint>

#include "core/dtype.h"
#include "device/cuda/lang/kernel.h"

namespace rl::cuda {

RL_DEVICE float fma_rn(float a, float b, float c) { return fmaf(a, b, c); }
RL_DEVICE double fma_rn(double a, double b, double c) { return fma(a, b, c); }
RL_DEVICE float exp_of(float x) { return expf(x); }
RL_DEVICE float log_of(float x) { return logf(x); }
RL_DEVICE float sqrt_of(float x) { return sqrtf(x); }
RL_DEVICE double exp_of(double x) { return exp(x); }
RL_DEVICE double log_of(double x) { return log(x); }
RL_DEVICE double sqrt_of(double x) { return sqrt(x); }
RL_DEVICE float max_of(float a, float b) { return fmaxf(a, b); }

// An element of a tensor of either compute dtype.
RL_DEVICE float load_element(Dtype t, const void* data, int64_t i) {
  return t == Dtype::kF32 ? static_cast<const float*>(data)[i]
                          : to_float(static_cast<const bf16*>(data)[i]);
}
RL_DEVICE void store_element(Dtype t, void* data, int64_t i, float v) {
  if (t == Dtype::kF32)
    static_cast<float*>(data)[i] = v;
  else
    static_cast<bf16*>(data)[i] = to_bf16(v);
}

}  // namespace rl::cuda
