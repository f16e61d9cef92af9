// Policy losses per token, with their gradient in the log-prob of the sampled token. A loss sees
// packed tokens that carry a loss and a weight per token (algo/loss_agg.h), so no denominator is
// ever taken from the batch at hand.
//
//   A = advantage,  r = exp(x),  x = clamp(log_prob - old_log_prob, -c, c), c = ratio_log_clamp
//   ppo_clip  l = max(-A r, -A clamp(r, 1 - clip_low, 1 + clip_high))  (arXiv 1707.06347; clip_high
//             above clip_low: arXiv 2503.14476); with dual_clip > 0 and A < 0:
//             l = min(l, -A dual_clip)                                 (arXiv 1912.09729)
//   none      l = -A log_prob                                          (REINFORCE)
//
// The gradient is exact for these formulas. ppo_clip: 0 where a clip or the clamp of x decides,
// else -A r; none: -A.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rl {

enum class PolicyLoss : uint8_t { kPpoClip, kNone };
std::string_view policy_loss_name(PolicyLoss v);
PolicyLoss parse_policy_loss(std::string_view text);  // key algo.policy_loss

struct PolicyLossParams {
  PolicyLoss kind = PolicyLoss::kPpoClip;
  double clip_low = 0.2;          // 0..1
  double clip_high = 0.2;         // >= 0
  double dual_clip = 0;           // 0 (off) or > 1; verl uses 3
  double ratio_log_clamp = 20.0;  // 0 (off) or > 0
};

// Throws Error(kOutOfRange) naming the option.
void validate(const PolicyLossParams& params);

struct TokenLoss {
  double value;       // l
  double gradient;    // dl / d log_prob
  double log_ratio;   // x
  bool clipped;       // the clipped term is the larger one
  bool dual_clipped;  // the dual clip is active
};

// One token; params must have passed validate.
TokenLoss token_policy_loss(const PolicyLossParams& params, double log_prob, double old_log_prob,
                            double advantage);

struct PolicyLossInput {
  std::span<const float> log_prob;
  std::span<const float> old_log_prob;
  std::span<const float> advantage;
  std::span<const double> weight;
};

// Sums over tokens in token order; a metric is a sum over all micro-batches divided by a global
// count.
struct PolicyLossSums {
  double loss = 0;  // sum of weight * l
  int64_t num_tokens = 0;
  int64_t num_clipped = 0;  // clip fraction = num_clipped / num_tokens
  int64_t num_dual_clipped = 0;
  double neg_log_ratio = 0;  // approximate KL(old, new), estimator k1: mean of -x
  double k3 = 0;             // the same, estimator k3: mean of r - 1 - x
  double ratio_max = 0;      // largest r, 0 for no tokens
};

// Adds weight * dl/dlog_prob to gradient, token by token, and returns the sums.
PolicyLossSums policy_loss(const PolicyLossParams& params, const PolicyLossInput& in,
                           std::span<double> gradient);

}  // namespace rl
