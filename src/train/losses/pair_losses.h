// The preference loss of a minibatch: answers in order, each two neighbours a pair, the chosen one
// first. A log-prob of an answer is the sum over its loss tokens in double, in token order; a
// masked token is never read. The loss is the mean over the pairs of the minibatch, so it does not
// depend on its cut into micro-batches.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "algo/losses/preference.h"

namespace rl {

struct PairTokens {
  std::span<const int32_t> lengths;  // generated tokens of each answer, packed below
  std::span<const uint8_t> mask;
  std::span<const float> current, reference;  // log-probs
};

// Sums over pairs. Of a reward model the rewards are its scores, and there are no log-probs.
struct PreferenceSums {
  int64_t pairs = 0, right = 0;  // right: the chosen answer has the larger reward
  double loss = 0;
  double reward_chosen = 0, reward_rejected = 0;    // beta (log pi - log ref)
  double logprob_chosen = 0, logprob_rejected = 0;  // of whole answers
  double nll = 0;                                   // -log pi of the chosen answer over its tokens

  void add(const PreferenceSums& other);
  double mean(double sum) const { return pairs > 0 ? sum / static_cast<double>(pairs) : 0; }
};

// Adds the gradient of the mean loss in each loss token's log-prob.
PreferenceSums pair_losses(const DpoParams& params, const PairTokens& tokens,
                           std::span<double> gradient);

// Appends both answers, numbered from first_item on, of each pair whose loss or gradient is not
// finite.
void find_non_finite_pairs(const DpoParams& params, const PairTokens& tokens, int32_t first_item,
                           std::vector<int32_t>& items);

}  // namespace rl
