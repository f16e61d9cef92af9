// AdamW (arXiv 1711.05101) on spans of fp32, in the order of operations of torch.optim.AdamW; t
// counts from 1.
//
//   g = scale * grad;  p = p * (1 - lr * decay)
//   m = m + (g - m) * (1 - beta1);  v = v * beta2 + ((1 - beta2) * g) * g
//   p = p + (-lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// Coefficients are computed in double once per step and rounded to fp32. Elements are independent:
// disjoint spans may be updated concurrently, and any split into spans gives the same bits. decay
// 0 is the no-decay group.
#pragma once
#include <cstdint>
#include <span>

namespace rl {

struct AdamwParams {
  double beta1 = 0.9;         // [0, 1)
  double beta2 = 0.999;       // [0, 1)
  double eps = 1e-8;          // > 0
  double weight_decay = 0.0;  // >= 0
};

// Throws Error(kOutOfRange) naming the option.
void validate(const AdamwParams& params);

struct AdamwStep {
  float decay_factor;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float minus_step_size;
  float sqrt_bias_correction2;
  float eps;
  float grad_scale;
};

struct AdamwStepInput {
  double lr = 0;          // finite, >= 0
  int64_t step = 1;       // t, the number of this update, >= 1
  double grad_scale = 1;  // finite, e.g. grad_clip_scale
};
AdamwStep adamw_step(const AdamwParams& params, const AdamwStepInput& in);

// Spans of equal length that do not overlap.
struct AdamwSpans {
  std::span<float> param;
  std::span<float> m;
  std::span<float> v;
  std::span<const float> grad;
};
void adamw_update(const AdamwStep& step, const AdamwSpans& spans);

// Sum of squares in double. Order: blocks of 4096 elements, 16 lanes per block (element i in lane
// i mod 16), lanes added pairwise, blocks in order. Spans that start at multiples of 4096 of a
// tensor therefore have the same block sums.
inline constexpr int64_t kGradNormBlock = 4096;
double grad_norm_squared(std::span<const float> grad);

// min(1, max_norm / (norm + 1e-6)) as torch.nn.utils.clip_grad_norm_; max_norm 0 disables clipping
// and returns 1.
double grad_clip_scale(double norm, double max_norm);

}  // namespace rl
