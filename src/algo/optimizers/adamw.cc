// Memory-bound loops; see algo/wide.h for why every vector form gives the same bits.
#include "algo/optimizers/adamw.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"
#include "algo/wide.h"

namespace rl {
namespace {

constexpr size_t kLanes = 16;

RL_WIDE_INLINE inline void update_range(const AdamwStep& s, const AdamwSpans& a) {
  float* __restrict p = a.param.data();
  float* __restrict m = a.m.data();
  float* __restrict v = a.v.data();
  const float* __restrict grad = a.grad.data();
  const size_t n = a.param.size();
  const AdamwStep c = s;
  for (size_t i = 0; i < n; ++i) {
    const float g = c.grad_scale * grad[i];
    const float new_m = m[i] + (g - m[i]) * c.one_minus_beta1;
    const float new_v = v[i] * c.beta2 + (c.one_minus_beta2 * g) * g;
    const float denominator = std::sqrt(new_v) / c.sqrt_bias_correction2 + c.eps;
    p[i] = p[i] * c.decay_factor + (c.minus_step_size * new_m) / denominator;
    m[i] = new_m;
    v[i] = new_v;
  }
}

RL_WIDE_INLINE inline double add_lanes(double* lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

RL_WIDE_INLINE inline double block_squares(const float* __restrict x, size_t n) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const double value = x[i + j];
      lanes[j] += value * value;
    }
  }
  for (size_t j = 0; i < n; ++i, ++j) lanes[j] += static_cast<double>(x[i]) * x[i];
  return add_lanes(lanes);
}

}  // namespace

void validate(const AdamwParams& p) {
  require_value(p.beta1 >= 0 && p.beta1 < 1, "optimizer.beta1", p.beta1, "at least 0, below 1");
  require_value(p.beta2 >= 0 && p.beta2 < 1, "optimizer.beta2", p.beta2, "at least 0, below 1");
  require_value(p.eps > 0 && std::isfinite(p.eps), "optimizer.eps", p.eps,
                "a finite value above 0");
  require_value(p.weight_decay >= 0 && std::isfinite(p.weight_decay), "optimizer.weight_decay",
                p.weight_decay, "a finite value of at least 0");
}

AdamwStep adamw_step(const AdamwParams& p, const AdamwStepInput& in) {
  validate(p);
  require_value(in.lr >= 0 && std::isfinite(in.lr), "optimizer.lr", in.lr,
                "a finite value of at least 0");
  require_value(in.step >= 1, "step", static_cast<double>(in.step), "at least 1");
  require_value(std::isfinite(in.grad_scale), "grad_scale", in.grad_scale, "a finite value");
  const auto t = static_cast<double>(in.step);
  return {
      .decay_factor = static_cast<float>(1 - in.lr * p.weight_decay),
      .one_minus_beta1 = static_cast<float>(1 - p.beta1),
      .beta2 = static_cast<float>(p.beta2),
      .one_minus_beta2 = static_cast<float>(1 - p.beta2),
      .minus_step_size = static_cast<float>(-in.lr / (1 - std::pow(p.beta1, t))),
      .sqrt_bias_correction2 = static_cast<float>(std::sqrt(1 - std::pow(p.beta2, t))),
      .eps = static_cast<float>(p.eps),
      .grad_scale = static_cast<float>(in.grad_scale),
  };
}

void adamw_update(const AdamwStep& step, const AdamwSpans& spans) {
  const size_t n = spans.param.size();
  RL_CHECK(spans.m.size() == n && spans.v.size() == n && spans.grad.size() == n);
  wide::run([&]() RL_WIDE_INLINE { update_range(step, spans); });
}

double grad_norm_squared(std::span<const float> grad) {
  double sum = 0;
  wide::run([&]() RL_WIDE_INLINE {
    constexpr auto kBlock = static_cast<size_t>(kGradNormBlock);
    for (size_t at = 0; at < grad.size(); at += kBlock) {
      sum += block_squares(grad.data() + at, std::min(kBlock, grad.size() - at));
    }
  });
  return sum;
}

double grad_clip_scale(double norm, double max_norm) {
  require_value(max_norm >= 0 && std::isfinite(max_norm), "optimizer.grad_clip", max_norm,
                "0 (off) or a finite value above 0");
  return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace rl
