// The cut into micro-batches.
#include "train/micro_batch.h"

#include <gtest/gtest.h>

#include "train_rig.h"

namespace rl::testing {
namespace {

std::vector<PackItem> items_of(const std::vector<Sample>& samples, WantedTokens which) {
  std::vector<PackItem> items;
  for (const Sample& s : samples)
    items.push_back(make_pack_item(s, static_cast<int32_t>(items.size()), which));
  return items;
}

TEST(MicroBatch, RowsEndBeforeTheLastTokenThatCarriesLoss) {
  Sample s = make_sample({10, 11, 12, 13, 14, 15}, 2, 0, 0);
  s.loss_mask = {0, 1, 1, 0};
  s.temperature = 0.5f;
  const PackItem item = make_pack_item(s, 7, WantedTokens::kLoss);
  EXPECT_EQ(item.rows, 4);
  EXPECT_EQ(item.wanted, 2);
  MicroBatch micro;
  EXPECT_EQ(micro.fill({&item, 1}, {4, 1, 16}, WantedTokens::kLoss), 1u);
  EXPECT_EQ(micro.rows(), 4);
  ASSERT_EQ(micro.wanted().size(), 2u);
  EXPECT_EQ(micro.wanted()[0].row, 2);  // predicts ids[3]
  EXPECT_EQ(micro.wanted()[0].id, 13);
  EXPECT_EQ(micro.wanted()[0].generated, 1);
  EXPECT_EQ(micro.wanted()[0].item, 7);
  EXPECT_EQ(micro.wanted()[0].inv_temperature, 2.0f);
  EXPECT_EQ(micro.wanted()[1].row, 3);
  EXPECT_EQ(micro.wanted()[1].id, 14);
  EXPECT_EQ(make_pack_item(s, 0, WantedTokens::kGenerated).rows, 5);
}

TEST(MicroBatch, CutsCoverEverySampleInOrderWithinTheBudget) {
  const std::vector<Sample> samples = random_samples(60, 256, 8);
  for (const WantedTokens which : {WantedTokens::kLoss, WantedTokens::kGenerated}) {
    const std::vector<PackItem> items = items_of(samples, which);
    for (const PackBudget budget : {PackBudget{50, 8, 16}, {128, 10, 16}, {1000, 200, 16}}) {
      std::span<const PackItem> rest = items;
      std::vector<int32_t> seen;
      MicroBatch micro;
      while (!rest.empty()) {
        rest = rest.subspan(micro.fill(rest, budget, which));
        EXPECT_LE(micro.rows(), budget.rows);
        std::vector<bool> used(static_cast<size_t>(budget.blocks));
        for (const SequenceRows& s : micro.batch().sequences) {
          EXPECT_EQ(s.first_position, 0);
          for (int64_t b = 0; b * budget.block_size < s.rows; ++b) {
            ASSERT_LT(s.blocks[b], budget.blocks);
            EXPECT_FALSE(used[static_cast<size_t>(s.blocks[b])]);
            used[static_cast<size_t>(s.blocks[b])] = true;
          }
        }
        for (const WantedRow& w : micro.wanted())
          if (seen.empty() || seen.back() != w.item) seen.push_back(w.item);
      }
      std::vector<int32_t> expected;
      for (const PackItem& item : items)
        if (item.wanted > 0) expected.push_back(item.index);
      EXPECT_EQ(seen, expected);
    }
  }
}

TEST(MicroBatch, ManyShortSequencesStopAtTheBlocks) {
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < 20; ++i) samples.push_back(make_sample({1, 2}, 1, 0, i));
  const std::vector<PackItem> items = items_of(samples, WantedTokens::kLoss);
  MicroBatch micro;
  EXPECT_EQ(micro.fill(items, {64, 8, 16}, WantedTokens::kLoss), 8u);
  EXPECT_EQ(micro.rows(), 8);
}

}  // namespace
}  // namespace rl::testing
