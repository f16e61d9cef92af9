// The rows that a rank has of a micro-batch: every row and every wanted token is one rank's, a
// block has rows of one rank, and no rank has more rows than buffers are planned for.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "context/context_rig.h"
#include "train/batch/micro_batch.h"

namespace rl::testing {
namespace {

constexpr int64_t kBlock = 16;

struct Division {
  std::vector<MicroBatch> ranks;
  MicroBatch whole;
};

std::vector<PackItem> items_of(const std::vector<Sample>& samples) {
  std::vector<PackItem> items;
  for (const Sample& s : samples)
    items.push_back(make_pack_item(s, static_cast<int32_t>(items.size()), WantedTokens::kLoss));
  return items;
}

void divide(const ContextRule& rule, const std::vector<Sample>& samples, bool shares,
            Division& out) {
  const std::vector<PackItem> items = items_of(samples);
  PackRules rules;
  rules.batch.shared_prefix = shares;
  rules.block_size = kBlock;
  out.whole.fill(items, rules, WantedTokens::kLoss);
  out.ranks.resize(static_cast<size_t>(rule.ranks));
  run_local_ranks(static_cast<int>(rule.ranks), [&](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    const ContextRanks ranks(group);
    MicroBatch& own = out.ranks[static_cast<size_t>(group.rank())];
    own.fill(items, rules, WantedTokens::kLoss);
    own.divide(rule, ranks);
  });
}

void expect_divided(const ContextRule& rule, const Division& d) {
  const ForwardBatch all = d.whole.batch();
  std::multiset<int32_t> ids(all.ids.begin(), all.ids.end()), got;
  std::map<std::pair<int32_t, int32_t>, int32_t> wanted;  // (item, token): id of its row
  for (const WantedRow& w : d.whole.wanted())
    wanted[{w.item, w.generated}] = all.ids[static_cast<size_t>(w.row)];
  std::map<int32_t, size_t> rank_of_block;
  for (size_t r = 0; r < d.ranks.size(); ++r) {
    const MicroBatch& micro = d.ranks[r];
    const ForwardBatch own = micro.batch();
    ASSERT_NE(own.context, nullptr);
    const DividedRows& rows = own.context->rows;
    EXPECT_EQ(rows.rows, d.whole.rows());
    EXPECT_LE(micro.rows(), std::max<int64_t>(1, rule.own_rows(d.whole.rows(), kBlock)));
    EXPECT_EQ(own.context->row_places[static_cast<int>(r)].count(),
              static_cast<uint64_t>(rows.own_rows));
    if (rows.own_rows == 0) {
      EXPECT_EQ(micro.rows(), 1);
      EXPECT_TRUE(micro.wanted().empty());
      continue;
    }
    got.insert(own.ids.begin(), own.ids.end());
    for (const WantedRow& w : micro.wanted()) {
      const auto at = wanted.find({w.item, w.generated});
      ASSERT_NE(at, wanted.end());
      EXPECT_EQ(own.ids[static_cast<size_t>(w.row)], at->second);
      wanted.erase(at);
    }
    const Piece blocks = own.context->blocks[static_cast<int>(r)];
    for (const SequenceRows& s : own.sequences) {
      for (int32_t p = s.first_position; p < s.first_position + s.rows; ++p) {
        const int32_t block = s.blocks[p / kBlock];
        EXPECT_TRUE(rank_of_block.emplace(block, r).first->second == r);
        EXPECT_GE(static_cast<uint64_t>(block), blocks.begin);
        EXPECT_LT(static_cast<uint64_t>(block), blocks.end);
      }
    }
  }
  EXPECT_EQ(got, ids);
  EXPECT_TRUE(wanted.empty());
  EXPECT_EQ(static_cast<int64_t>(rank_of_block.size()), d.whole.blocks());
}

TEST(DividedMicroBatch, HasEveryRowOnce) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    for (const bool shares : {false, true}) {
      for (const bool zigzag : {false, true}) {
        const GroupLengths lengths{1 + static_cast<int>(seed % 3), 1 + static_cast<int>(seed % 4),
                                   seed % 2 == 0 ? 20u : 200u, seed < 6 ? 10u : 150u};
        const std::vector<Sample> samples = group_samples(lengths, 1 << 20, seed);
        for (const int64_t ranks : {2, 3, 5}) {
          SCOPED_TRACE(str("seed ", seed, ", ", ranks, " ranks, shares ", shares, ", ", zigzag));
          const ContextRule rule{ranks, ContextKind::kAllGather, zigzag};
          Division d;
          divide(rule, samples, shares, d);
          expect_divided(rule, d);
        }
      }
    }
  }
}

// The last rank of a contiguous cut has most keys before its rows; with two chunks for each rank,
// one from each half, all have as many.
TEST(DividedMicroBatch, ZigzagBalancesTheKeysBeforeRows) {
  const std::vector<Sample> samples = group_samples({1, 1, 1, 3000}, 1 << 20, 1);
  const auto keys_of = [&](bool zigzag) {
    Division d;
    divide({4, ContextKind::kAllGather, zigzag}, samples, false, d);
    std::vector<double> keys;
    for (const MicroBatch& micro : d.ranks) {
      double sum = 0;
      for (const SequenceRows& s : micro.batch().sequences)
        for (int32_t r = 0; r < s.rows; ++r) sum += s.first_position + r + 1;
      keys.push_back(sum);
    }
    return *std::ranges::max_element(keys) / *std::ranges::min_element(keys);
  };
  EXPECT_GT(keys_of(false), 5);
  EXPECT_LT(keys_of(true), 1.1);
}

}  // namespace
}  // namespace rl::testing
