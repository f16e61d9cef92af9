// Samples as flat arrays, as a host's algorithms see them: rl_algo_tokens of rl.h.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

namespace rl {

// Arrays that the host does not give are empty. Per-token arrays have the tokens of sequence 0,
// then 1, ...
struct AlgoArrays {
  std::span<const int32_t> lengths;
  std::span<const uint64_t> groups;  // of sequences: equal numbers form a group; empty: one group
  std::span<const uint64_t> sample_ids;  // not used here; the host identifies its samples by them
  std::span<const uint8_t> mask;         // empty: every token carries loss
  std::span<const uint8_t> truncated;    // of sequences; empty: none
  std::span<const float> logprobs;       // of the current policy
  std::span<const float> old_logprobs;   // empty: logprobs
  std::span<const float> rollout_logprobs;  // empty: old_logprobs
  std::span<const float> ref_logprobs;
  std::span<const float> advantages;
  std::span<const double> rewards;       // of sequences
  std::span<const double> reward_parts;  // (sequences, components) of the reward; empty: none
  std::span<const double> baselines;     // of sequences: rewards of greedy responses
  std::span<const double> token_rewards;
  std::span<const float> values, old_values, returns;  // of a critic; old_values empty: values
  std::span<const float> entropies;
  std::span<const double> weights;  // empty: those of algo.loss_agg
  // Of the whole batch, which these arrays are a part of; 0: of these arrays.
  int64_t total_tokens = 0, total_sequences = 0;
};

// A host's own algorithm in place of one of this folder (algo.advantage, algo.policy_loss =
// custom). An empty span in the arrays was not computed.
//
// Computes the advantages of every token, which are 0 on entry; those of masked tokens are not
// read. An exception makes the step fail before anything has changed.
using CustomAdvantage = std::function<void(const AlgoArrays& in, std::span<double> advantages)>;

// Returns the loss of a minibatch and adds its derivative in the log-prob of each token to
// gradient. weights are those of algo.loss_agg times corrections; a token of weight 0 is masked,
// and its gradient is not read. A loss that is a mean of token losses l is the sum of weights * l.
using CustomLoss = std::function<double(const AlgoArrays& in, std::span<const double> weights,
                                        std::span<double> gradient)>;

}  // namespace rl
