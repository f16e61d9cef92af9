// Distributes sequences: over ranks with equal work, and over micro-batches within a token budget.
//
// balance is the largest differencing method of Karmarkar and Karp for k sets (Michiels et al.
// 2003): one state per sequence (equal_size: per k sequences in order of cost), each a list of k
// sets; the two states with the widest gap between their largest and smallest set are merged, the
// largest set of one with the smallest of the other, until one is left. Ties are broken by sum,
// number of items, then indices, so the result is unique. verl and OpenRLHF use the same method.
//
// cut_micro_batches balances by cost and then repairs: items of a bin over the budget move to a
// bin where they fit, or swap with smaller ones. If that fails, first-fit by decreasing length is
// tried, and then one more bin. verl and OpenRLHF only raise the count, or accept the bin.
//
// Cost of a sequence of L tokens: tokens L; flops 6 C L + L^2 with C the hidden size, which is
// proportional to a transformer block's work 12 C^2 L + 2 C L^2 (verl's 24576 L + L^2 is C = 4096).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rl {

enum class BalanceCost : uint8_t { kNone, kTokens, kFlops };
std::string_view balance_cost_name(BalanceCost v);
BalanceCost parse_balance_cost(std::string_view text);  // key trainer.balance

// kNone costs 1. length 0..2^31, hidden_size 1..2^20.
int64_t sequence_cost(BalanceCost kind, int64_t hidden_size, int64_t length);

using Partition = std::vector<std::vector<int32_t>>;  // indices, ascending in each set

// k non-empty sets of costs.size() >= k >= 1 items; equal_size requires k to divide the number of
// items and gives every set the same number. Otherwise Error(kInvalidArgument). Costs are >= 0. If
// zero costs leave a set empty, it takes an item from the set with most items.
Partition balance(std::span<const int64_t> costs, int32_t k, bool equal_size);

// Sets of whole groups: group[i] of sample i, groups 0..n-1. Each set has the same number of
// groups.
Partition balance_groups(std::span<const int64_t> costs, std::span<const int32_t> group, int32_t k);

struct MicroBatchParams {
  int64_t max_tokens = 0;  // >= 1
  int32_t min_count = 1;   // minimum number of micro-batches, if there are as many units
  int32_t divisor = 1;     // their number is a multiple of it
  int32_t group_size = 1;  // this many neighbours stay together as a unit
  BalanceCost cost = BalanceCost::kTokens;
  int64_t hidden_size = 4096;
  bool oversize_alone = false;  // a unit over the budget gets its own bin; false: an Error
};
// Throws Error(kOutOfRange) naming sample, tokens and budget for a unit that does not fit, and
// Error(kInvalidArgument) if there are fewer units than divisor requires.
Partition cut_micro_batches(std::span<const int32_t> lengths, const MicroBatchParams& params);

// Sequences that stay together, with the tokens they use of a budget and their cost.
struct WorkUnit {
  int64_t tokens, cost;  // >= 1, >= 0
};
// The same for given units; params.group_size, cost and hidden_size are ignored. Returns indices
// of units.
Partition cut_micro_batches(std::span<const WorkUnit> units, const MicroBatchParams& params);

}  // namespace rl
