// Masses and targets as sampling_params.h says, for kernels.
#pragma once
#include "device/cuda/lang/kernel.h"
#include "ops/cuda/kernels/head/sampling_params.h"

namespace rl::cuda {

RL_DEVICE int64_t to_units(double mass, double units) { return static_cast<int64_t>(mass * units); }

RL_DEVICE int64_t draw_target(double u, int64_t total) {
  const auto target = static_cast<int64_t>(u * static_cast<double>(total));
  return target < total ? target : total - 1;
}

RL_DEVICE bool is_finite(float x) { return x - x == 0; }

}  // namespace rl::cuda
