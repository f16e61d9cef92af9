// Token formulas in double; the loop over tokens is shared by all losses.
#include "algo/policy_loss.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<PolicyLoss>, 2> kPolicyLosses{
    {{PolicyLoss::kPpoClip, "ppo_clip"}, {PolicyLoss::kNone, "none"}}};

TokenLoss ppo_clip(const PolicyLossParams& p, double log_ratio, bool clamped, double advantage) {
  const double ratio = std::exp(log_ratio);
  const double plain = -advantage * ratio;
  const double limited = -advantage * std::clamp(ratio, 1 - p.clip_low, 1 + p.clip_high);
  TokenLoss t{.value = std::max(plain, limited),
              .gradient = clamped ? 0.0 : plain,
              .log_ratio = log_ratio,
              .clipped = limited > plain,
              .dual_clipped = false};
  if (t.clipped) t.gradient = 0;
  const double floor = -advantage * p.dual_clip;
  if (p.dual_clip > 0 && advantage < 0 && floor < t.value) {
    t.value = floor;
    t.gradient = 0;
    t.dual_clipped = true;
  }
  return t;
}

}  // namespace

std::string_view policy_loss_name(PolicyLoss v) { return choice_name(kPolicyLosses, v); }
PolicyLoss parse_policy_loss(std::string_view text) {
  return parse_choice("algo.policy_loss", kPolicyLosses, text);
}

void validate(const PolicyLossParams& p) {
  require_value(p.clip_low >= 0 && p.clip_low <= 1, "algo.clip_low", p.clip_low, "0..1");
  require_value(p.clip_high >= 0 && std::isfinite(p.clip_high), "algo.clip_high", p.clip_high,
                "a finite value of at least 0");
  require_value(p.dual_clip == 0 || (p.dual_clip > 1 && std::isfinite(p.dual_clip)),
                "algo.dual_clip", p.dual_clip, "0 (off) or a finite value above 1");
  require_value(p.ratio_log_clamp >= 0 && std::isfinite(p.ratio_log_clamp), "algo.ratio_log_clamp",
                p.ratio_log_clamp, "0 (off) or a finite value above 0");
}

TokenLoss token_policy_loss(const PolicyLossParams& p, double log_prob, double old_log_prob,
                            double advantage) {
  const double raw = log_prob - old_log_prob;
  const bool clamped = p.ratio_log_clamp > 0 && std::abs(raw) > p.ratio_log_clamp;
  const double log_ratio = clamped ? std::copysign(p.ratio_log_clamp, raw) : raw;
  if (p.kind == PolicyLoss::kNone) {
    return {.value = -advantage * log_prob,
            .gradient = -advantage,
            .log_ratio = log_ratio,
            .clipped = false,
            .dual_clipped = false};
  }
  return ppo_clip(p, log_ratio, clamped, advantage);
}

PolicyLossSums policy_loss(const PolicyLossParams& params, const PolicyLossInput& in,
                           std::span<double> gradient) {
  validate(params);
  const size_t n = in.log_prob.size();
  require_same_size("old_log_prob", in.old_log_prob.size(), n);
  require_same_size("advantage", in.advantage.size(), n);
  require_same_size("weight", in.weight.size(), n);
  require_same_size("gradient", gradient.size(), n);
  PolicyLossSums sums;
  sums.num_tokens = static_cast<int64_t>(n);
  for (size_t i = 0; i < n; ++i) {
    const TokenLoss t =
        token_policy_loss(params, in.log_prob[i], in.old_log_prob[i], in.advantage[i]);
    const double ratio = std::exp(t.log_ratio);
    sums.loss += in.weight[i] * t.value;
    gradient[i] += in.weight[i] * t.gradient;
    sums.num_clipped += t.clipped;
    sums.num_dual_clipped += t.dual_clipped;
    sums.neg_log_ratio -= t.log_ratio;
    sums.k3 += ratio - 1 - t.log_ratio;
    sums.ratio_max = std::max(sums.ratio_max, ratio);
  }
  return sums;
}

}  // namespace rl
