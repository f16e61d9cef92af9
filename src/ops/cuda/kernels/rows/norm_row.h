// RMSNorm of the row that a team of threads shares (row_team.h): one arithmetic for rows of the
// residual and for heads, forward and backward. Formulas and rounding points: ops/rms_norm.h.
//
// Sums over the row: squares are fused multiply-adds into the thread's sum; the backward's sum of
// (dy * w) * x likewise.
#pragma once
#include "device/cuda/lang/arithmetic.h"
#include "ops/cuda/kernels/rows/norm_params.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {

RL_DEVICE float norm_weight(const NormParams& norm, int64_t i) {
  return norm.kind == NormWeight::kPlain ? norm.weight[i] : norm.weight[i] + 1.0f;
}

// From the squares of the row, which the team's threads have summed.
RL_DEVICE float inverse_rms(const RowTeam& team, float squares, int64_t n, float eps) {
  return 1.0f / sqrt_of(add_team(team, squares) / static_cast<float>(n) + eps);
}
RL_DEVICE float inverse_rms(const RowTeam& team, const float* x, int64_t n, float eps) {
  float squares = 0;
  each_ahead(
      team, n, [&](int64_t i) { return x[i]; },
      [&](int64_t, float value) { squares = fma_rn(value, value, squares); });
  return inverse_rms(team, squares, n, eps);
}

RL_DEVICE float normed(const NormParams& norm, int64_t i, float x, float inverse) {
  return x * inverse * norm_weight(norm, i);
}

// What the backward needs of a row: dx = (dy w) inverse - x pull.
struct NormSlope {
  float inverse, pull;
};
RL_DEVICE NormSlope norm_slope(float inverse, float sum_dy_w_x, int64_t n) {
  return {inverse, inverse * inverse * inverse * sum_dy_w_x / static_cast<float>(n)};
}
RL_DEVICE float norm_gradient(const NormParams& norm, int64_t i, const NormSlope& slope, float x,
                              float dy) {
  return dy * norm_weight(norm, i) * slope.inverse - x * slope.pull;
}

}  // namespace rl::cuda
