// Policy losses whose ratio is over a whole sequence. T, sums and means run over the sequence's
// tokens of nonzero weight; x_t = log_prob_t - old_log_prob_t without a clamp; names as in
// algo/losses/policy_loss.h.
//
//   gspo  s = exp(min(mean x, c)), l_t = max(-A_t s, -A_t clip(s))              (arXiv 2507.18071)
//         gspo_gradient token: each token's own log-prob carries its loss, dl_t/dlp_t = -A_t s (the
//         paper's GSPO-token; verl). sequence: the derivative of s itself, every token gets
//         (1 / T) sum_u w_u dl_u/dlog s (OpenRLHF, TRL). Both are equal when A and w are constant
//         over the sequence.
//   gmpo  R = exp(mean x'), x' = x clamped to [-clip_low, clip_high] on the side where the clamp
//         lowers A x, L = -(mean A) R                                          (arXiv 2507.20673)
//         L is weighted by the sum of its tokens' weights, and by the geometric mean of their
//         corrections (each + 1e-10, as in verl). verl takes the mean over all sequences, empty
//         ones too: seq_mean_token_mean with num_sequences = all.
//
// These losses are separate from the per-token ones because their mean needs the whole sequence: a
// micro-batch must not split one.
#pragma once
#include <span>

#include "algo/losses/policy_loss.h"

namespace rl {

// in has passed the checks of policy_loss.
PolicyLossSums sequence_policy_loss(const PolicyLossParams& params, const PolicyLossInput& in,
                                    std::span<double> gradient);

}  // namespace rl
