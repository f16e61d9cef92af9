// Losses of pairs: a chosen and a rejected response to one prompt, or their two rewards.
// D = (log pi_c - log pi_r) - (log ref_c - log ref_r), over whole sequences (sums over tokens).
//
//   dpo     l = -(1 - s) log sigmoid(beta D) - s log sigmoid(-beta D), s = label_smoothing
//                                                     (arXiv 2305.18290; s: cDPO, Mitchell 2023)
//   ipo     l = (D - 1 / (2 beta))^2                  (arXiv 2310.12036, equation 17)
//   nll     + nll_coef * -(log pi_c) / T_c, T_c = tokens of the chosen response (arXiv 2404.19733)
//   reward  l = -log sigmoid(c - r - margin)          (Bradley-Terry; arXiv 2203.02155)
//   log_exp l = log(1 + exp(r - c)), which is reward with margin 0
//
// OpenRLHF has these under the same names; TRL divides D by the lengths for ipo, which is ipo on
// sequence means: the caller passes means then. weight is 1 / global number of pairs for a mean.
#pragma once
#include <span>

namespace rl {

struct DpoParams {
  double beta = 0.1;             // > 0
  double label_smoothing = 0.0;  // 0..0.5, at 0.5 nothing is learnt; must be 0 with ipo
  bool ipo = false;
  double nll_coef = 0.0;  // >= 0
};
// Throws Error(kOutOfRange) naming the option.
void validate(const DpoParams& params);

struct PreferencePair {
  double chosen;  // log-prob of the sequence under the policy
  double rejected;
  double ref_chosen;  // under the reference
  double ref_rejected;
  double chosen_tokens;  // >= 1; used if nll_coef > 0
};

struct PairLoss {
  double value;
  double d_chosen;  // d value / d chosen
  double d_rejected;
  double reward_chosen;  // beta (chosen - ref_chosen), for metrics
  double reward_rejected;
};
// params have passed validate.
PairLoss dpo_loss(const DpoParams& params, const PreferencePair& pair);

// Rewards of a reward model; d_* are the derivatives in them. margin finite.
PairLoss reward_pair_loss(double chosen, double rejected, double margin);

struct DpoInput {
  std::span<const PreferencePair> pairs;
  std::span<const double> weight;
};
struct DpoGradient {
  std::span<double> chosen;
  std::span<double> rejected;
};
struct DpoSums {
  double loss = 0;
  double num_pairs = 0;
  double num_right = 0;  // chosen has the larger reward
  double margin = 0;     // sum of reward_chosen - reward_rejected
};
// Adds weight * derivative to the gradients. A pair of weight 0 is not read.
DpoSums dpo_loss(const DpoParams& params, const DpoInput& in, const DpoGradient& gradient);

}  // namespace rl
