// How data-parallel ranks divide the samples of a minibatch: by shape alone, so that every rank
// that has all of them finds the same parts. Neighbours that stay together are a unit.
//
// With BalanceCost::kNone a rank has neighbours in the order of the batch, as many units as any
// other, or one more. With kTokens and kFlops the ranks' work is as equal as the differencing
// method of algo/batching/balance.h makes it; a prompt that a unit shares counts once.
#pragma once
#include <span>
#include <vector>

#include "train/batch/micro_batch_plan.h"

namespace rl {

struct RankCut {
  BalanceCost cost = BalanceCost::kNone;
  int64_t hidden_size = 1;     // of the model, for BalanceCost::kFlops
  bool whole_groups = false;   // samples with one ordinal stay together
  bool shared_prefix = false;  // a prompt of neighbours is computed once
  int64_t together = 1;        // else this many neighbours: 2 for pairs
};

// Which of the parts, and how many there are.
struct RankPart {
  int index, count;
};

// The items of each rank, in their order. Together they are `items`; a rank may have none.
std::vector<std::vector<PackItem>> cut_over_ranks(std::span<const PackItem> items,
                                                  const RankCut& cut, int ranks);
// Those of one of them.
std::vector<PackItem> items_of_part(std::span<const PackItem> items, const RankCut& cut,
                                    const RankPart& part);

}  // namespace rl
