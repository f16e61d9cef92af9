// Policy losses, with their gradient in the log-prob of the sampled token. A loss sees packed
// tokens and a weight per token (algo/losses/loss_agg.h), so no denominator ever depends on the
// micro-batch at hand.
//
//   A = advantage,  r = exp(x),  x = clamp(log_prob - old_log_prob, -c, c), c = ratio_log_clamp,
//   clip(r) = clamp(r, 1 - clip_low, 1 + clip_high),  sg = no gradient through it
//   ppo_clip  l = max(-A r, -A clip(r))                     (arXiv 1707.06347; clip_high above
//             clip_low: arXiv 2503.14476); with dual_clip > 0 and A < 0:
//             l = min(l, -A dual_clip)                      (arXiv 1912.09729); with ratio_cap > 0
//             the unclipped r is at most ratio_cap          (TRL delta, arXiv 2505.07291)
//   none      l = -A log_prob                               (REINFORCE)
//   gpg       the same, under the name of its advantage estimator (arXiv 2504.02546)
//   cispo     l = -sg(clip(r)) A log_prob                   (arXiv 2506.13585)
//   sapo      l = -A (4 / tau) sigmoid(tau (r - 1)), tau by the sign of A     (arXiv 2511.20347)
//   dppo_tv   l = -A sg(min(r, ratio_cap)) log_prob, 0 outside the trust region: with A > 0 where
//             p - p_old > clip_high, else where p_old - p > clip_low          (arXiv 2602.04879)
//   dppo_kl   the same with the KL of (p_old, 1 - p_old) from (p, 1 - p) against clip_high and
//             clip_low, if p moved in the direction of A
//   dro       l = -(A log_prob - dro_beta / 2 x^2)          (arXiv 2405.19107, as in verl)
//   clip_cov  ppo_clip, 0 for selected tokens               (arXiv 2505.22617, with kl_cov)
//   kl_cov    l = -A r, + kl_cov_coef |x| for selected tokens; selection: algo/losses/covariance.h
//   gspo, gmpo: ratios of whole sequences, algo/losses/sequence_loss.h
//
// The gradient is exact for these formulas: 0 where a clip, a cap or the clamp of x is active.
//
// Where libraries differ under one name: c is 20 in verl (ppo_clip, cispo, sapo, dppo, dro) and
// OpenRLHF, off in TRL and in verl's clip_cov, kl_cov and gmpo, and 10 from above in verl's gspo.
// dual_clip is 3 in verl, off elsewhere. cispo in TRL has only an upper bound, and its number is
// the bound itself: clip_low 1, clip_high = number - 1. dppo's ratio_cap is 20 in the paper.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rl {

enum class PolicyLoss : uint8_t {
  kPpoClip,
  kNone,
  kGspo,
  kCispo,
  kSapo,
  kGmpo,
  kGpg,
  kDppoTv,
  kDppoKl,
  kClipCov,
  kKlCov,
  kDro,
  kCustom,  // a host's own: algo/algo_arrays.h
};
std::string_view policy_loss_name(PolicyLoss v);
PolicyLoss parse_policy_loss(std::string_view text);  // key algo.policy_loss

// How gspo differentiates a token's loss (algo/losses/sequence_loss.h).
enum class GspoGradient : uint8_t { kToken, kSequence };

struct PolicyLossParams {
  PolicyLoss kind = PolicyLoss::kPpoClip;
  double clip_low = 0.2;          // 0..1
  double clip_high = 0.2;         // >= 0
  double dual_clip = 0;           // 0 (off) or > 1; verl uses 3
  double ratio_log_clamp = 20.0;  // 0 (off) or > 0
  double ratio_cap = 0;           // 0 (off) or >= 1; ppo_clip, dppo
  double sapo_tau_pos = 1.0;      // > 0
  double sapo_tau_neg = 1.05;     // > 0
  double dro_beta = 0.1;          // > 0
  double kl_cov_coef = 1.0;       // >= 0
  GspoGradient gspo_gradient = GspoGradient::kToken;
};

// Throws Error(kOutOfRange) naming the option.
void validate(const PolicyLossParams& params);

// True for losses whose ratio is over a whole sequence: they need PolicyLossInput::lengths.
bool is_sequence_loss(PolicyLoss kind);
// True for losses that treat selected tokens differently: they need PolicyLossInput::selected.
bool needs_selection(PolicyLoss kind);

struct TokenLoss {
  double value;       // l
  double gradient;    // dl / d log_prob
  double log_ratio;   // x
  bool clipped;       // the clipped term is the larger one; dppo: outside the trust region;
                      // clip_cov: selected
  bool dual_clipped;  // the dual clip is active; dppo: the ratio is capped
};

// One token of a loss that is not a sequence loss; params must have passed validate.
TokenLoss token_policy_loss(const PolicyLossParams& params, double log_prob, double old_log_prob,
                            double advantage, bool selected = false);

// A token of weight 0 is masked: it is not read, contributes exactly nothing and is not counted. A
// correction of 0 removes a token's loss but still counts the token.
struct PolicyLossInput {
  std::span<const float> log_prob;
  std::span<const float> old_log_prob;
  std::span<const float> advantage;
  std::span<const double> weight;
  std::span<const double> correction = {};  // factor of each l (algo/losses/correction.h); empty: 1
  std::span<const int32_t> lengths = {};    // packed whole sequences
  std::span<const uint8_t> selected = {};
};

// Sums over tokens in token order; a metric is a sum over all micro-batches divided by a global
// count.
struct PolicyLossSums {
  double loss = 0;  // sum of weight * correction * l
  int64_t num_tokens = 0;
  int64_t num_clipped = 0;  // clip fraction = num_clipped / num_tokens
  int64_t num_dual_clipped = 0;
  double neg_log_ratio = 0;  // approximate KL(old, new), estimator k1: mean of -x
  double k3 = 0;             // the same, estimator k3: mean of r - 1 - x
  double ratio_max = 0;      // largest r of a token, 0 for no tokens
  double abs_log_ratio = 0;  // the same, estimator abs: mean of |x|

  void count(const TokenLoss& token);
};

// Adds weight * correction * dl/dlog_prob to gradient, token by token, and returns the sums.
PolicyLossSums policy_loss(const PolicyLossParams& params, const PolicyLossInput& in,
                           std::span<double> gradient);

}  // namespace rl
