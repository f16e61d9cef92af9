// How ranks divide a minibatch: nothing is lost, neighbours that belong together stay together, and
// balancing makes the ranks' work equal where the order of the batch does not.
#include "train/ranks/rank_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "train_rig.h"

namespace rl::testing {
namespace {

std::vector<PackItem> items_of(const std::vector<Sample>& samples) {
  std::vector<PackItem> items;
  for (const Sample& s : samples) {
    items.push_back(make_pack_item(s, static_cast<int32_t>(items.size()), WantedTokens::kLoss));
  }
  return items;
}

// Groups of four whose responses become longer and longer.
std::vector<Sample> growing(int count) {
  std::vector<Sample> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(make_sample(std::vector<int32_t>(static_cast<size_t>(4 + 3 * i), 5), 2,
                              static_cast<uint64_t>(i / 4), static_cast<uint32_t>(i % 4)));
  }
  return out;
}

int64_t rows_of(const std::vector<PackItem>& items) {
  return std::accumulate(items.begin(), items.end(), int64_t{0},
                         [](int64_t sum, const PackItem& item) { return sum + item.rows; });
}

std::vector<int32_t> indices_of(const std::vector<PackItem>& items) {
  std::vector<int32_t> out;
  for (const PackItem& item : items) out.push_back(item.index);
  return out;
}

using Indices = std::vector<std::vector<int32_t>>;

Indices cut(const std::vector<PackItem>& items, const RankCut& rules, int ranks) {
  Indices out;
  for (const auto& part : cut_over_ranks(items, rules, ranks)) out.push_back(indices_of(part));
  return out;
}

TEST(RankCut, GivesEachItemToOneRank) {
  const std::vector<Sample> samples = random_samples(23, 200, 3);
  const std::vector<PackItem> items = items_of(samples);
  for (const BalanceCost cost : {BalanceCost::kNone, BalanceCost::kTokens, BalanceCost::kFlops}) {
    for (const bool whole : {false, true}) {
      for (const int64_t together : {1, 2}) {
        for (const int ranks : {1, 2, 3, 8, 40}) {
          const RankCut rules{cost, 64, whole, true, together};
          std::vector<int32_t> all;
          const Indices parts = cut(items, rules, ranks);
          ASSERT_EQ(parts.size(), static_cast<size_t>(ranks));
          for (const auto& part : parts) {
            EXPECT_TRUE(std::ranges::is_sorted(part));
            all.insert(all.end(), part.begin(), part.end());
          }
          std::ranges::sort(all);
          EXPECT_EQ(all, indices_of(items));
          EXPECT_EQ(cut(items, rules, ranks), parts);
        }
      }
    }
  }
}

TEST(RankCut, WithoutBalanceRanksHaveNeighboursInOrder) {
  const std::vector<Sample> samples = growing(5);
  EXPECT_EQ(cut(items_of(samples), {}, 2), (Indices{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(cut(items_of(samples), {.together = 2}, 2), (Indices{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(cut(items_of(samples), {.whole_groups = true}, 2), (Indices{{0, 1, 2, 3}, {4}}));
  EXPECT_EQ(cut(items_of(samples), {}, 7), (Indices{{}, {0}, {1}, {}, {2}, {3}, {4}}));
}

TEST(RankCut, BalanceMakesTheRanksWorkEqual) {
  const std::vector<Sample> samples = growing(40);
  const std::vector<PackItem> items = items_of(samples);
  const auto spread = [&](const RankCut& rules) {
    int64_t least = rows_of(items), most = 0;
    for (const auto& part : cut_over_ranks(items, rules, 4)) {
      least = std::min(least, rows_of(part));
      most = std::max(most, rows_of(part));
    }
    return static_cast<double>(most) / static_cast<double>(least);
  };
  EXPECT_GT(spread({}), 4.0);  // the last rank has the longest samples
  EXPECT_LT(spread({.cost = BalanceCost::kTokens}), 1.02);
  // The squares of lengths count: with a small model long samples cost more than their tokens.
  EXPECT_GT(spread({.cost = BalanceCost::kFlops, .hidden_size = 1}), 1.02);
  EXPECT_LT(spread({.cost = BalanceCost::kTokens, .whole_groups = true}), 1.3);
}

TEST(RankCut, KeepsGroupsWholeIfAsked) {
  const std::vector<Sample> samples = growing(40);
  const std::vector<PackItem> items = items_of(samples);
  const auto split_groups = [&](bool whole) {
    int split = 0;
    const RankCut rules{.cost = BalanceCost::kTokens, .whole_groups = whole};
    for (const auto& part : cut_over_ranks(items, rules, 3)) {
      std::map<uint64_t, int> counts;
      for (const PackItem& item : part) ++counts[item.sample->ordinal];
      for (const auto& [ordinal, count] : counts) split += count != 4;
    }
    return split;
  };
  EXPECT_EQ(split_groups(true), 0);
  EXPECT_GT(split_groups(false), 0);
}

// Eight samples of one prompt of 60 tokens cost less than two of 120 tokens each.
TEST(RankCut, CountsASharedPromptOnce) {
  std::vector<Sample> samples;
  for (uint32_t slot = 0; slot < 8; ++slot) {
    samples.push_back(make_sample(std::vector<int32_t>(66, 7), 60, 0, slot));
  }
  for (uint64_t ordinal = 1; ordinal < 4; ++ordinal) {
    std::vector<int32_t> ids(100, 9);
    ids[0] = static_cast<int32_t>(ordinal);
    samples.push_back(make_sample(std::move(ids), 60, ordinal, 0));
  }
  const std::vector<PackItem> items = items_of(samples);
  RankCut rules{.cost = BalanceCost::kTokens, .whole_groups = true, .shared_prefix = true};
  EXPECT_EQ(cut(items, rules, 2)[0], (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  rules.shared_prefix = false;
  EXPECT_EQ(cut(items, rules, 2)[0], (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace rl::testing
