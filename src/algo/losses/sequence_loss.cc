// Two passes over each sequence: the ratio, then losses and gradients.
#include "algo/losses/sequence_loss.h"

#include <algorithm>
#include <cmath>

namespace rl {
namespace {

// One sequence of the packed input; its arrays start at begin.
struct Sequence {
  const PolicyLossParams& params;
  const PolicyLossInput& in;
  size_t begin, end;

  bool counts(size_t i) const { return in.weight[i] != 0; }
  double log_ratio(size_t i) const {
    return static_cast<double>(in.log_prob[i]) - in.old_log_prob[i];
  }
  double scale(size_t i) const {
    return in.correction.empty() ? in.weight[i] : in.weight[i] * in.correction[i];
  }
};

TokenLoss counted(const Sequence& s, size_t i) {
  return {.value = 0,
          .gradient = 0,
          .log_ratio = s.log_ratio(i),
          .clipped = false,
          .dual_clipped = false};
}

void gspo(const Sequence& s, double num_tokens, PolicyLossSums& sums, std::span<double> gradient) {
  const PolicyLossParams& p = s.params;
  double mean = 0;
  for (size_t i = s.begin; i < s.end; ++i) {
    if (s.counts(i)) mean += s.log_ratio(i);
  }
  mean /= num_tokens;
  const bool clamped = p.ratio_log_clamp > 0 && mean > p.ratio_log_clamp;
  const double ratio = std::exp(clamped ? p.ratio_log_clamp : mean);
  const double limited_ratio = std::clamp(ratio, 1 - p.clip_low, 1 + p.clip_high);
  double shared = 0;  // derivative of the sequence's loss in log s
  for (size_t i = s.begin; i < s.end; ++i) {
    if (!s.counts(i)) continue;
    const double plain = -s.in.advantage[i] * ratio;
    const double limited = -s.in.advantage[i] * limited_ratio;
    TokenLoss t = counted(s, i);
    t.clipped = limited > plain;
    sums.count(t);
    const double scale = s.scale(i);
    if (scale == 0) continue;
    sums.loss += scale * std::max(plain, limited);
    const double slope = t.clipped || clamped ? 0.0 : scale * plain;
    shared += slope;
    if (p.gspo_gradient == GspoGradient::kToken) gradient[i] += slope;
  }
  if (p.gspo_gradient == GspoGradient::kToken) return;
  for (size_t i = s.begin; i < s.end; ++i) {
    if (s.counts(i)) gradient[i] += shared / num_tokens;
  }
}

// The clamp is active only where it lowers A x.
bool gmpo_clamped(const PolicyLossParams& p, double advantage, double x) {
  return advantage > 0 ? x > p.clip_high : advantage < 0 && x < -p.clip_low;
}

void gmpo(const Sequence& s, double num_tokens, PolicyLossSums& sums, std::span<double> gradient) {
  constexpr double kEps = 1e-10;
  const PolicyLossParams& p = s.params;
  double mean = 0, advantage = 0, weight = 0, log_correction = 0;
  for (size_t i = s.begin; i < s.end; ++i) {
    if (!s.counts(i)) continue;
    const double a = s.in.advantage[i];
    TokenLoss t = counted(s, i);
    const bool outside = t.log_ratio > p.clip_high || t.log_ratio < -p.clip_low;
    t.clipped = outside && a > 0;
    t.dual_clipped = outside && a < 0;
    sums.count(t);
    const double limited = a > 0 ? p.clip_high : -p.clip_low;
    if (a != 0) mean += gmpo_clamped(p, a, t.log_ratio) ? limited : t.log_ratio;
    advantage += a;
    weight += s.in.weight[i];
    if (!s.in.correction.empty()) log_correction += std::log(s.in.correction[i] + kEps);
  }
  const double ratio = std::exp(mean / num_tokens);
  const double scale = weight * std::exp(log_correction / num_tokens);
  const double value = -(advantage / num_tokens) * ratio;
  sums.loss += scale * value;
  for (size_t i = s.begin; i < s.end; ++i) {
    if (!s.counts(i) || s.in.advantage[i] == 0) continue;
    if (!gmpo_clamped(p, s.in.advantage[i], s.log_ratio(i))) {
      gradient[i] += scale * value / num_tokens;
    }
  }
}

}  // namespace

PolicyLossSums sequence_policy_loss(const PolicyLossParams& params, const PolicyLossInput& in,
                                    std::span<double> gradient) {
  PolicyLossSums sums;
  size_t begin = 0;
  for (const int32_t length : in.lengths) {
    const Sequence s{params, in, begin, begin + static_cast<size_t>(length)};
    begin = s.end;
    double num_tokens = 0;
    for (size_t i = s.begin; i < s.end; ++i) num_tokens += s.counts(i);
    if (num_tokens == 0) continue;
    if (params.kind == PolicyLoss::kGspo) {
      gspo(s, num_tokens, sums, gradient);
    } else {
      gmpo(s, num_tokens, sums, gradient);
    }
  }
  return sums;
}

}  // namespace rl
