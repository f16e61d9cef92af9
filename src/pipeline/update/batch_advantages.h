// Turns the rewards of a batch into advantages of its samples or tokens: shaping, KL penalty,
// estimator, whitening, and which samples carry no loss at all. Pure functions of the whole batch;
// no result depends on how the trainer splits it.
//
//   score -> normalize -> truncation -> overlong -> clip -> minus the KL (spread = sample)
//   -> estimator -> clip (at = advantage) -> rewards to go with the KL of each token -> whitening
// With gae the shaped reward and the KL of each token are token rewards, used together with the
// critic's values.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/sample.h"
#include "pipeline/config/advantage_options.h"

namespace rl {

// A greedy response to a prompt, the baseline of remax.
struct GreedyResponse {
  const Sample* sample = nullptr;
  double score = 0;
  double token_rewards = 0;  // their sum over tokens with loss
};

// Samples with the same ordinal form a group, in any order.
struct ScoredBatch {
  std::span<const SamplePtr> samples = {};
  std::span<const double> scores = {};
  std::span<const std::vector<double>> parts = {};        // components of the reward; empty: none
  std::span<const std::vector<float>> ref_logprobs = {};  // needed with kl_in_reward
  std::span<const GreedyResponse> greedy = {};            // needed by remax: one for each sample
  double kl_coef = 0;                                     // needed with kl_in_reward
  const CustomAdvantage* custom = nullptr;                // needed by custom
  std::span<const std::vector<float>> values = {};        // needed by gae: one per generated token
  // Added to the rewards of all generated tokens, sample after sample, if has_token_rewards; with
  // custom for the host to read; empty: none.
  std::span<const double> token_rewards = {};
};

// Whether the estimator takes rewards of single tokens.
bool has_token_rewards(Advantage kind);

struct BatchAdvantages {
  std::vector<double> rewards;  // after shaping and the KL penalty, per sample
  std::vector<uint8_t> carries_loss;
  // Samples; one that is both counts as overlong.
  int64_t masked_overlong = 0, masked_repetitive = 0;
  double kl = 0;  // mean over samples of their mean over loss tokens, with kl_in_reward

  std::vector<double> per_sample;  // from the estimator; 0 for token rewards and custom
  // For every generated token, sample after sample; 0 where there is no loss.
  std::vector<int32_t> lengths;
  std::vector<uint8_t> mask;
  std::vector<double> advantages, returns;
  bool varies = false;  // the advantages of a sample's tokens may differ from per_sample
};

// Error(kNonFinite) names a sample whose stored or reference log-probs make its penalty
// non-finite.
BatchAdvantages batch_advantages(const AdvantageOptions& options, const ScoredBatch& batch);

// The same with the host's advantages, one per sample: filtered samples carry no loss here either.
BatchAdvantages given_advantages(const AdvantageOptions& options, const ScoredBatch& batch,
                                 std::span<const double> advantages);

// Only the estimator, on shaped rewards: decides whether a group has a signal.
std::vector<double> outcome_advantages(const AdvantageOptions& options, const ScoredBatch& batch);

}  // namespace rl
