// The parity of a response's number says which half of the pair it is.
#include "train/losses/reward_pairs.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace rl {

bool keeps_pairs(const MicroBatchPlan& plan) {
  for (const std::vector<PackItem>& some : plan) {
    if (some.size() % 2 != 0) return false;
    for (size_t i = 0; i < some.size(); i += 2) {
      if (some[i].index % 2 != 0 || some[i + 1].index != some[i].index + 1) return false;
    }
  }
  return true;
}

void RewardPairs::begin(int32_t first_item, size_t num_responses) {
  RL_CHECK(first_item % 2 == 0 && num_responses % 2 == 0);
  first_item_ = first_item;
  values_.assign(num_responses, 0.0f);
}

PairLoss RewardPairs::loss(size_t chosen) const {
  PairLoss pair = reward_pair_loss(values_[chosen], values_[chosen + 1], 0);
  // An infinite margin would have zero loss and zero gradient.
  if (!std::isfinite(pair.reward_chosen - pair.reward_rejected)) {
    pair.value = std::numeric_limits<double>::quiet_NaN();
  }
  return pair;
}

double RewardPairs::gradient(int32_t item) const {
  const size_t at = index(item), chosen = at - at % 2;
  const PairLoss pair = loss(chosen);
  return (at == chosen ? pair.d_chosen : pair.d_rejected) / static_cast<double>(values_.size() / 2);
}

PreferenceSums RewardPairs::sums() const {
  PreferenceSums sums;
  for (size_t i = 0; i < values_.size(); i += 2) {
    const PairLoss pair = loss(i);
    ++sums.pairs;
    sums.right += pair.reward_chosen > pair.reward_rejected;
    sums.loss += pair.value;
    sums.reward_chosen += pair.reward_chosen;
    sums.reward_rejected += pair.reward_rejected;
  }
  return sums;
}

void RewardPairs::find_non_finite(std::vector<int32_t>& items) const {
  for (size_t i = 0; i < values_.size(); i += 2) {
    if (std::isfinite(loss(i).value)) continue;
    items.push_back(first_item_ + static_cast<int32_t>(i));
    items.push_back(first_item_ + static_cast<int32_t>(i) + 1);
  }
}

}  // namespace rl
