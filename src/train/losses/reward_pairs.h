// The loss of a reward model over a minibatch: responses in order, two neighbours form a pair, the
// chosen one first; each has one value, its score. The loss is the mean of reward_pair_loss over
// the pairs (algo/losses/preference.h), summed in order from all values at once, so neither it nor
// a gradient depends on the split into micro-batches.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "train/batch/micro_batch_plan.h"
#include "train/losses/pair_losses.h"

namespace rl {

// Whether both responses of every pair are in the same micro-batch; items are numbered in pairs.
bool keeps_pairs(const MicroBatchPlan& plan);

class RewardPairs {
 public:
  // Clears everything; responses are numbered from first_item on, which is a chosen one.
  void begin(int32_t first_item, size_t num_responses);
  void set(int32_t item, float value) { values_[index(item)] = value; }
  // Of all responses; 0 until it is set.
  std::span<float> values() { return values_; }

  // Gradient of the mean loss in the item's value. Both values of its pair must be set.
  double gradient(int32_t item) const;
  // Sums over all pairs; all values must be set. The log-probs of responses stay 0.
  PreferenceSums sums() const;
  // Appends both responses of each pair whose loss is not finite.
  void find_non_finite(std::vector<int32_t>& items) const;

 private:
  size_t index(int32_t item) const { return static_cast<size_t>(item - first_item_); }
  PairLoss loss(size_t chosen) const;

  int32_t first_item_ = 0;
  std::vector<float> values_;
};

}  // namespace rl
