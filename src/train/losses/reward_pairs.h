// The loss of a reward model over a minibatch: answers in order, each two neighbours a pair, the
// chosen one first, each with one value, its score. The loss is the mean of reward_pair_loss over
// the pairs (algo/losses/preference.h), summed in their order from all values at once, so neither
// it nor a gradient in a value depends on the cut into micro-batches.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "train/batch/micro_batch_plan.h"
#include "train/losses/pair_losses.h"

namespace rl {

// Whether both answers of every pair stand in one micro-batch; items are numbered in pairs.
bool keeps_pairs(const MicroBatchPlan& plan);

class RewardPairs {
 public:
  // Forgets everything; answers are numbered from first_item, a chosen one, on.
  void begin(int32_t first_item, size_t num_answers);
  void set(int32_t item, float value) { values_[index(item)] = value; }

  // Of the mean loss, in the value of the item. Both values of its pair have been set.
  double gradient(int32_t item) const;
  // Of all pairs; all values have been set. The log-probs of answers stay 0.
  PreferenceSums sums() const;
  // Appends both answers of each pair whose loss is not finite.
  void find_non_finite(std::vector<int32_t>& items) const;

 private:
  size_t index(int32_t item) const { return static_cast<size_t>(item - first_item_); }
  PairLoss loss(size_t chosen) const;

  int32_t first_item_ = 0;
  std::vector<float> values_;
};

}  // namespace rl
