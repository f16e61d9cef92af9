// The preference loss of a minibatch: responses in order, two neighbours form a pair, the chosen
// one first. The log-prob of a response is the sum over its loss tokens in double, in token order;
// a masked token is never read. The loss is the mean over the pairs of the minibatch, so it does
// not depend on the split into micro-batches.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "algo/losses/preference.h"

namespace rl {

struct PairTokens {
  std::span<const int32_t> lengths;  // generated tokens of each response, packed below
  std::span<const uint8_t> mask;
  std::span<const float> current, reference;  // log-probs
};

// Sums over pairs. For a reward model the rewards are its scores, and there are no log-probs.
struct PreferenceSums {
  int64_t pairs = 0, right = 0;  // right: the chosen response has the larger reward
  double loss = 0;
  double reward_chosen = 0, reward_rejected = 0;    // beta (log pi - log ref)
  double logprob_chosen = 0, logprob_rejected = 0;  // of whole responses
  double nll = 0;                                   // -log pi of the chosen response, per token

  void add(const PreferenceSums& other);
  double mean(double sum) const { return pairs > 0 ? sum / static_cast<double>(pairs) : 0; }
};

// Adds the gradient of the mean loss with respect to each loss token's log-prob.
PreferenceSums pair_losses(const DpoParams& params, const PairTokens& tokens,
                           std::span<double> gradient);

// Appends both responses, numbered from first_item on, of each pair whose loss or gradient is not
// finite.
void find_non_finite_pairs(const DpoParams& params, const PairTokens& tokens, int32_t first_item,
                           std::vector<int32_t>& items);

}  // namespace rl
