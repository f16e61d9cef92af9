// Plain loops in order.
#include "algo/moments.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

void check_mask(std::span<const uint8_t> mask, size_t size) {
  if (!mask.empty()) require_same_size("mask", mask.size(), size);
}

bool counts(std::span<const uint8_t> mask, size_t i) { return mask.empty() || mask[i] != 0; }

}  // namespace

Moments moments_of(std::span<const double> values, std::span<const uint8_t> mask) {
  check_mask(mask, values.size());
  Moments m;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!counts(mask, i)) continue;
    m.count += 1;
    m.mean += values[i];
  }
  if (m.count > 0) m.mean /= m.count;
  for (size_t i = 0; i < values.size(); ++i) {
    if (counts(mask, i)) m.squares += (values[i] - m.mean) * (values[i] - m.mean);
  }
  return m;
}

Moments merge(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count;
  const double gap = b.mean - a.mean;
  return {.count = count,
          .mean = a.mean + gap * (b.count / count),
          .squares = a.squares + b.squares + gap * gap * (a.count * b.count / count)};
}

double variance(const Moments& m, int32_t ddof) {
  return m.count > ddof ? m.squares / (m.count - ddof) : 0.0;
}

void validate(const WhitenParams& p) {
  require_value(p.ddof == 0 || p.ddof == 1, "algo.adv_ddof", p.ddof, "0 or 1");
  require_value(p.eps > 0 && std::isfinite(p.eps), "algo.adv_eps", p.eps, "a finite value above 0");
}

void whiten(const WhitenParams& params, const Moments& moments, std::span<const uint8_t> mask,
            std::span<double> values) {
  validate(params);
  check_mask(mask, values.size());
  const double var = variance(moments, params.ddof);
  const double spread = std::sqrt(params.floor ? std::max(var, params.eps) : var + params.eps);
  const double std = params.divide_by_std ? spread : 1.0;
  const double back = params.shift_mean ? 0.0 : moments.mean;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = counts(mask, i) ? (values[i] - moments.mean) / std + back : 0.0;
  }
}

}  // namespace rl
