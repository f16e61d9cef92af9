// Samples as flat arrays, which is how algorithms of a host see them: rl_algo_tokens of rl.h.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

namespace rl {

// Empty where the host gives none. Per-token arrays have the tokens of sequence 0, then 1, ...
struct AlgoArrays {
  std::span<const int32_t> lengths;
  std::span<const uint64_t> groups;      // of sequences: equal numbers are a group; empty: one
  std::span<const uint64_t> sample_ids;  // read by nothing here; a host knows its samples by them
  std::span<const uint8_t> mask;         // empty: every token carries loss
  std::span<const uint8_t> truncated;    // of sequences; empty: none
  std::span<const float> logprobs;       // of the current policy
  std::span<const float> old_logprobs;   // empty: logprobs
  std::span<const float> rollout_logprobs;  // empty: old_logprobs
  std::span<const float> ref_logprobs;
  std::span<const float> advantages;
  std::span<const double> rewards;       // of sequences
  std::span<const double> reward_parts;  // (sequences, kinds): kinds of reward; empty: none
  std::span<const double> baselines;     // of sequences: scores of greedy answers
};

// A host's own algorithm in place of one of this folder (algo.advantage, algo.policy_loss =
// custom). It gets what stands in the arrays; a span that is empty was not computed.
//
// The advantages of every token, which are 0 when it is called; those of masked tokens are not
// read. It throws what makes the step fail before anything has changed.
using CustomAdvantage = std::function<void(const AlgoArrays& in, std::span<double> advantages)>;

// The loss of a minibatch and, added to gradient, its derivative in the log-prob of each token.
// weights are those of algo.loss_agg times corrections; a token of weight 0 is masked, and what
// stands at it in the gradient is not read. The sum of a mean loss l is that of weights * l.
using CustomLoss = std::function<double(const AlgoArrays& in, std::span<const double> weights,
                                        std::span<double> gradient)>;

}  // namespace rl
