// The formulas of one token, in double.
#include <algorithm>
#include <cmath>

#include "algo/choice.h"
#include "algo/losses/policy_loss.h"

namespace rl {
namespace {

// The inputs of a formula: the clamped log-ratio, and whether the clamp changed it.
struct TokenInput {
  double log_prob;
  double old_log_prob;
  double advantage;
  double log_ratio;
  bool clamped;
  bool selected;
};

TokenLoss make_loss(const TokenInput& in, double value, double gradient) {
  return {.value = value,
          .gradient = gradient,
          .log_ratio = in.log_ratio,
          .clipped = false,
          .dual_clipped = false};
}

double clip_ratio(const PolicyLossParams& p, double ratio) {
  return std::clamp(ratio, 1 - p.clip_low, 1 + p.clip_high);
}

TokenLoss ppo_clip(const PolicyLossParams& p, const TokenInput& in) {
  const double ratio = std::exp(in.log_ratio);
  const bool capped = p.ratio_cap > 0 && ratio > p.ratio_cap;
  const double plain = -in.advantage * (capped ? p.ratio_cap : ratio);
  const double limited = -in.advantage * clip_ratio(p, ratio);
  TokenLoss t = make_loss(in, std::max(plain, limited), in.clamped || capped ? 0.0 : plain);
  t.clipped = limited > plain;
  if (t.clipped) t.gradient = 0;
  const double floor = -in.advantage * p.dual_clip;
  if (p.dual_clip > 0 && in.advantage < 0 && floor < t.value) {
    t.value = floor;
    t.gradient = 0;
    t.dual_clipped = true;
  }
  return t;
}

TokenLoss reinforce(const TokenInput& in, double coefficient) {
  return make_loss(in, -in.advantage * coefficient * in.log_prob, -in.advantage * coefficient);
}

TokenLoss cispo(const PolicyLossParams& p, const TokenInput& in) {
  const double ratio = std::exp(in.log_ratio);
  const double limited = clip_ratio(p, ratio);
  TokenLoss t = reinforce(in, limited);
  t.clipped = ratio != limited;
  return t;
}

TokenLoss sapo(const PolicyLossParams& p, const TokenInput& in) {
  const double tau = in.advantage > 0 ? p.sapo_tau_pos : p.sapo_tau_neg;
  const double ratio = std::exp(in.log_ratio);
  const double gate = 1 / (1 + std::exp(-tau * (ratio - 1)));
  const double slope = 4 * gate * (1 - gate) * ratio;
  return make_loss(in, -in.advantage * (4 / tau) * gate, in.clamped ? 0.0 : -in.advantage * slope);
}

// KL of the two-way distribution (p_old, 1 - p_old) from (p, 1 - p). The 1e-8 keep the logarithm
// finite at probability 1; they are verl's.
double two_way_kl(double log_prob, double old_log_prob) {
  constexpr double kEps = 1e-8;
  const double p = std::exp(log_prob);
  const double old = std::exp(old_log_prob);
  return old * (old_log_prob - log_prob) + (1 - old) * std::log((1 - old + kEps) / (1 - p + kEps));
}

bool in_trust_region(const PolicyLossParams& p, const TokenInput& in) {
  const double moved = std::exp(in.log_prob) - std::exp(in.old_log_prob);
  const bool up = in.advantage > 0;
  if (p.kind == PolicyLoss::kDppoTv) return up ? moved <= p.clip_high : moved >= -p.clip_low;
  if (up ? moved <= 0 : moved >= 0) return true;
  return two_way_kl(in.log_prob, in.old_log_prob) <= (up ? p.clip_high : p.clip_low);
}

TokenLoss dppo(const PolicyLossParams& p, const TokenInput& in) {
  const double ratio = std::exp(in.log_ratio);
  const bool capped = p.ratio_cap > 0 && ratio > p.ratio_cap;
  const bool inside = in_trust_region(p, in);
  TokenLoss t = inside ? reinforce(in, capped ? p.ratio_cap : ratio) : make_loss(in, 0.0, 0.0);
  t.clipped = !inside;
  t.dual_clipped = inside && capped;
  return t;
}

TokenLoss dro(const PolicyLossParams& p, const TokenInput& in) {
  const double x = in.log_ratio;
  return make_loss(in, -(in.advantage * in.log_prob - p.dro_beta / 2 * x * x),
                   -in.advantage + (in.clamped ? 0.0 : p.dro_beta * x));
}

TokenLoss clip_cov(const PolicyLossParams& p, const TokenInput& in) {
  TokenLoss t = in.selected ? make_loss(in, 0.0, 0.0) : ppo_clip(p, in);
  t.clipped = in.selected;
  return t;
}

TokenLoss kl_cov(const PolicyLossParams& p, const TokenInput& in) {
  const double plain = -in.advantage * std::exp(in.log_ratio);
  TokenLoss t = make_loss(in, plain, in.clamped ? 0.0 : plain);
  if (!in.selected) return t;
  const double sign = static_cast<double>((in.log_ratio > 0) - (in.log_ratio < 0));
  t.value += p.kl_cov_coef * std::abs(in.log_ratio);
  if (!in.clamped) t.gradient += p.kl_cov_coef * sign;
  return t;
}

}  // namespace

TokenLoss token_policy_loss(const PolicyLossParams& p, double log_prob, double old_log_prob,
                            double advantage, bool selected) {
  const double raw = log_prob - old_log_prob;
  const bool clamped = p.ratio_log_clamp > 0 && std::abs(raw) > p.ratio_log_clamp;
  const double log_ratio = clamped ? std::copysign(p.ratio_log_clamp, raw) : raw;
  const TokenInput in{log_prob, old_log_prob, advantage, log_ratio, clamped, selected};
  switch (p.kind) {
    case PolicyLoss::kPpoClip:
      return ppo_clip(p, in);
    case PolicyLoss::kNone:
    case PolicyLoss::kGpg:
      return make_loss(in, -advantage * log_prob, -advantage);
    case PolicyLoss::kCispo:
      return cispo(p, in);
    case PolicyLoss::kSapo:
      return sapo(p, in);
    case PolicyLoss::kDppoTv:
    case PolicyLoss::kDppoKl:
      return dppo(p, in);
    case PolicyLoss::kDro:
      return dro(p, in);
    case PolicyLoss::kClipCov:
      return clip_cov(p, in);
    case PolicyLoss::kKlCov:
      return kl_cov(p, in);
    case PolicyLoss::kGspo:
    case PolicyLoss::kGmpo:
    case PolicyLoss::kCustom:
      break;
  }
  RL_CHECK(false && "no loss of a single token");
  return {};
}

}  // namespace rl
