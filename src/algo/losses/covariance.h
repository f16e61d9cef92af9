// Selects the tokens that clip_cov and kl_cov treat differently (arXiv 2505.22617). Means and
// selection are over the whole batch of an optimizer step, so they do not depend on its split into
// micro-batches; verl uses the micro-batch for both.
//
//   cov_i     (A_i - mean A) (log_prob_i - mean log_prob)
//   kl_cov    the max(1, floor(ratio N)) tokens with the largest cov; of equals the first
//   clip_cov  of the candidates, tokens with low < cov < high that ppo_clip does not clip already,
//             max(1, floor(ratio N)) at random, those with the smallest u
//
// N = tokens of the batch. verl's defaults: ratio 2e-4, low 1, high 5.
#pragma once
#include <cstdint>
#include <span>

namespace rl {

struct CovarianceMeans {
  double advantage = 0;
  double log_prob = 0;
};

void token_covariances(const CovarianceMeans& means, std::span<const float> advantage,
                       std::span<const float> log_prob, std::span<double> covariance);

// selected[i] becomes 1 or 0. ratio in (0, 1], else Error(kOutOfRange) naming algo.cov_ratio.
void select_largest(double ratio, std::span<const double> covariance, std::span<uint8_t> selected);

struct ClipCovParams {
  double ratio = 2e-4;  // (0, 1]
  double low = 1.0;
  double high = 5.0;
};
// Throws Error(kOutOfRange) naming the option.
void validate(const ClipCovParams& params);

struct ClipCovInput {
  std::span<const double> covariance;
  std::span<const uint8_t> clipped;  // by ppo_clip
  std::span<const double> u;         // uniform in [0, 1), one per token from the caller
};
void select_between(const ClipCovParams& params, const ClipCovInput& in,
                    std::span<uint8_t> selected);

}  // namespace rl
