// What runs of equal prompts occupy, where a micro-batch ends by each of its limits, and which rows
// it has: exact numbers.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "train/batch/micro_batch.h"
#include "train/passes/pass_rules.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

PackItem item_of(const Sample& s, int32_t index = 0) {
  return make_pack_item(s, index, WantedTokens::kLoss);
}

std::vector<PackItem> items_of(const std::vector<Sample>& samples,
                               WantedTokens which = WantedTokens::kLoss) {
  std::vector<PackItem> items;
  for (const Sample& s : samples)
    items.push_back(make_pack_item(s, static_cast<int32_t>(items.size()), which));
  return items;
}

// A sample of so many rows: its last token is only a target. Prompts of other ids are apart.
Sample of_rows(int32_t rows, int32_t prompt, int32_t id = 5) {
  return make_sample(std::vector<int32_t>(static_cast<size_t>(rows) + 1, id), prompt, 0, 0);
}

std::vector<Sample> apart(const std::vector<int32_t>& rows) {
  std::vector<Sample> out;
  for (const int32_t n : rows) out.push_back(of_rows(n, 1, static_cast<int32_t>(out.size())));
  return out;
}

std::vector<size_t> counts_of(const MicroBatchPlan& plan) {
  std::vector<size_t> out;
  for (const auto& part : plan) out.push_back(part.size());
  return out;
}

PackRules rules_of(int64_t rows, int64_t blocks) {
  PackRules rules;
  rules.rows = rules.longest = rows;
  rules.blocks = blocks;
  rules.block_size = 16;
  return rules;
}

using Counts = std::vector<size_t>;

TEST(MicroBatchSizes, RowsAreThoseBeforeTheLastWantedToken) {
  Sample s = make_sample({1, 2, 3, 4, 5, 6}, 2, 0, 0);
  const auto size = [&](WantedTokens which) {
    const PackItem item = make_pack_item(s, 3, which);
    EXPECT_EQ(item.sample, &s);
    EXPECT_EQ(item.index, 3);
    return std::pair(item.rows, item.wanted);
  };
  EXPECT_EQ(size(WantedTokens::kLoss), std::pair(5, 4));
  s.loss_mask = {1, 0, 0, 0};
  EXPECT_EQ(size(WantedTokens::kLoss), std::pair(2, 1));
  s.loss_mask = {0, 0, 0, 0};
  EXPECT_EQ(size(WantedTokens::kLoss), std::pair(0, 0));
  EXPECT_EQ(size(WantedTokens::kGenerated), std::pair(5, 4));
  EXPECT_EQ(size(WantedTokens::kLast), std::pair(6, 1));
}

TEST(MicroBatchSizes, ARunIsOfNeighboursWithOnePrompt) {
  const Sample a = make_sample({1, 2, 3}, 2, 0, 0), same = make_sample({1, 2, 9, 9}, 2, 5, 1),
               longer = make_sample({1, 2, 3, 4}, 3, 0, 2), other = make_sample({1, 3, 3}, 2, 0, 3);
  const auto run = [](const std::vector<const Sample*>& samples, bool shares = true) {
    std::vector<PackItem> items;
    for (const Sample* s : samples) items.push_back(item_of(*s));
    return run_length(items, shares);
  };
  EXPECT_EQ(run({&a}), 1u);
  EXPECT_EQ(run({&a, &same, &a}), 3u);
  EXPECT_EQ(run({&a, &same, &a}, false), 1u);
  EXPECT_EQ(run({&a, &longer}), 1u) << "the prompt of one is part of the other's";
  EXPECT_EQ(run({&longer, &a}), 1u);
  EXPECT_EQ(run({&a, &other}), 1u);
  EXPECT_EQ(run({&a, &same, &other, &a}), 2u) << "only neighbours";
}

// Rows of a prompt of 20 tokens: 16 fill a block, 4 begin another one.
TEST(MicroBatchSizes, ARunCountsItsPromptAndItsWholeBlocksOnce) {
  struct Case {
    std::vector<int32_t> rows;
    int64_t total, blocks;
  };
  for (const Case& c :
       {Case{{20}, 20, 2}, Case{{32}, 32, 2}, Case{{33}, 33, 3},
        Case{{20, 20}, 20, 2},  // neither has a row of its own
        Case{{20, 25}, 25, 3},  // 5 own rows; the prompt's 2 and 1 more
        Case{{25, 25}, 30, 4},  // each its own second block
        Case{{32, 33}, 20 + 25, 2 + 1 + 2}, Case{{25, 20, 48}, 20 + 33, 2 + 1 + 2}}) {
    RunSize size(16);
    EXPECT_TRUE(size.empty());
    std::vector<Sample> samples;
    for (const int32_t rows : c.rows) samples.push_back(of_rows(rows, 20));
    for (const PackItem& item : items_of(samples)) size.add(item);
    EXPECT_FALSE(size.empty());
    EXPECT_EQ(size.rows(), c.total) << c.rows.back();
    EXPECT_EQ(size.blocks(), c.blocks) << c.rows.back();
    MicroBatch micro;  // which takes just that much
    micro.fill(items_of(samples), rules_of(100, 20), WantedTokens::kLoss);
    EXPECT_EQ(micro.rows(), c.total);
    EXPECT_EQ(micro.blocks(), c.blocks);
  }
}

// Prompts that end with a block leave nothing of it to the responses.
TEST(MicroBatchSizes, AWholeBlockOfAPromptIsShared) {
  RunSize size(16);
  const std::vector<Sample> samples = {of_rows(17, 16), of_rows(40, 16)};
  for (const PackItem& item : items_of(samples)) size.add(item);
  EXPECT_EQ(size.rows(), 16 + 1 + 24);
  EXPECT_EQ(size.blocks(), 1 + 1 + 2);
}

TEST(MicroBatchSizes, AMicroBatchEndsAtItsRows) {
  const std::vector<Sample> samples = apart({40, 60, 1, 99, 100, 101, 2});
  const std::vector<PackItem> items = items_of(samples);
  EXPECT_EQ(counts_of(plan_micro_batches(items, rules_of(100, 100))), (Counts{2, 2, 1, 1, 1}))
      << "40 and 60; 1 and 99; 100; 101, which fits none; 2";
  PackRules rules = rules_of(100, 100);
  rules.batch.pad_to = 32;  // up to 96 rows
  const std::vector<Sample> more = apart({40, 56, 40, 57});
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(more), rules)), (Counts{2, 1, 1}));
}

TEST(MicroBatchSizes, AMicroBatchEndsAtItsBlocks) {
  const std::vector<Sample> samples = apart({16, 17, 16, 1});
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(samples), rules_of(100, 3))), (Counts{2, 2}));
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(samples), rules_of(100, 4))), (Counts{3, 1}));
}

TEST(MicroBatchSizes, AFixedNumberOfSequencesIsAllThatCounts) {
  PackRules rules = rules_of(10, 1);
  rules.batch.micro_batch_size = 3;
  const std::vector<Sample> samples = apart({40, 60, 1, 99, 100, 101, 2});
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(samples), rules)), (Counts{3, 3, 1}));
  const std::vector<Sample> group(5, of_rows(9, 4));  // a run, which is cut all the same
  std::vector<Sample> all = apart({7});
  all.insert(all.end(), group.begin(), group.end());
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(all), rules)), (Counts{3, 3}));
}

// Each is padded to the longest of them, and each has a block for the padding behind it.
TEST(MicroBatchSizes, SequencesThatAreNotPackedCountTheirPadding) {
  PackRules rules = rules_of(100, 100);
  rules.batch.packed = false;
  const auto counts = [&](const std::vector<int32_t>& rows) {
    const std::vector<Sample> samples = apart(rows);
    return counts_of(plan_micro_batches(items_of(samples), rules));
  };
  EXPECT_EQ(counts({10, 50, 10}), (Counts{2, 1}));
  EXPECT_EQ(counts({10, 51, 10}), (Counts{1, 1, 1}));
  EXPECT_EQ(counts({10, 33, 33}), (Counts{3}));
  EXPECT_EQ(counts({10, 33, 34}), (Counts{2, 1}));
  rules.batch.pad_to = 25;
  EXPECT_EQ(counts({10, 10, 10, 10, 10}), (Counts{4, 1}));
  rules.batch.pad_to = 1;
  rules.blocks = 5;  // 16 rows take a block, and one for padding
  EXPECT_EQ(counts({16, 16, 16}), (Counts{2, 1}));
  EXPECT_EQ(counts({16, 17, 16}), (Counts{1, 1, 1}));
}

TEST(MicroBatchSizes, WithoutSharingAPromptIsCountedForEachSample) {
  const std::vector<Sample> samples(3, of_rows(30, 20));
  PackRules rules = rules_of(60, 100);
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(samples), rules)), (Counts{3}));
  rules.batch.shared_prefix = false;
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(samples), rules)), (Counts{2, 1}));
  rules.batch.shared_prefix = true;
  rules.batch.packed = false;
  EXPECT_FALSE(rules.shares());
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(samples), rules)), (Counts{2, 1}));
}

TEST(MicroBatchSizes, ItemsWithoutRowsAreLeftOut) {
  std::vector<Sample> samples = apart({10, 10, 10});
  std::ranges::fill(samples[1].loss_mask, 0);
  const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules_of(100, 100));
  ASSERT_EQ(counts_of(plan), (Counts{2}));
  EXPECT_EQ(plan[0][1].index, 2);
  for (const BalanceCost balance : {BalanceCost::kNone, BalanceCost::kTokens}) {
    PackRules rules = rules_of(100, 100);
    rules.batch.balance = balance;
    EXPECT_TRUE(plan_micro_batches({}, rules).empty());
    EXPECT_TRUE(plan_micro_batches(std::vector{items_of(samples)[1]}, rules).empty());
  }
}

// The state that one micro-batch leaves is no part of the next one.
TEST(MicroBatchSizes, AMicroBatchIsFilledAnew) {
  const std::vector<Sample> group(3, of_rows(30, 20)), one = apart({17});
  MicroBatch used, fresh;
  used.fill(items_of(group), rules_of(100, 100), WantedTokens::kLoss);
  PackRules rules = rules_of(100, 100);
  rules.batch.pad_to = 32;
  for (MicroBatch* micro : {&used, &fresh}) {
    micro->fill(items_of(one), rules, WantedTokens::kLoss);
    EXPECT_EQ(micro->rows(), 32);
    EXPECT_EQ(micro->blocks(), 2 + 1);
    EXPECT_EQ(micro->wanted().size(), 17u);
    const ForwardBatch batch = micro->batch();
    ASSERT_EQ(batch.sequences.size(), 2u);
    EXPECT_EQ(batch.sequences[0].blocks[0], 0);
    EXPECT_EQ(batch.sequences[1].blocks[0], 2);
  }
}

// Padding is of token 0, at positions from 0 on; unpacked, it follows each sequence.
TEST(MicroBatchSizes, PaddingStandsBehindItsSequence) {
  PackRules rules = rules_of(100, 100);
  rules.batch.packed = false;
  rules.batch.pad_to = 4;
  const std::vector<Sample> samples = {of_rows(3, 1, 7), of_rows(6, 1, 9)};
  MicroBatch micro;
  micro.fill(items_of(samples), rules, WantedTokens::kLoss);
  const ForwardBatch batch = micro.batch();
  EXPECT_EQ(std::vector<int32_t>(batch.ids.begin(), batch.ids.end()),
            (std::vector<int32_t>{7, 7, 7, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 0, 0}));
  std::vector<std::pair<int32_t, int32_t>> places;
  for (const SequenceRows& s : batch.sequences) {
    places.emplace_back(s.first_row, s.rows);
    EXPECT_EQ(s.first_position, 0);
    EXPECT_EQ(s.prefix_sequence, -1);
  }
  EXPECT_EQ(places, (std::vector<std::pair<int32_t, int32_t>>{{0, 3}, {3, 5}, {8, 6}, {14, 2}}));
  EXPECT_EQ(micro.wanted().front().row, 0);
  EXPECT_EQ(micro.wanted().back().row, 8 + 5);
}

// The value of a whole sample is that of its last row, which for a bare prompt is the prompt's.
TEST(MicroBatchSizes, TheLastRowOfEachSampleIsWanted) {
  const std::vector<Sample> samples = {
      make_sample({1, 2, 3, 4, 5}, 3, 0, 0), make_sample({1, 2, 3}, 3, 0, 1),
      make_sample({1, 2, 3, 9}, 3, 0, 2), make_sample({8, 7}, 1, 1, 0)};
  const std::vector<PackItem> items = items_of(samples, WantedTokens::kLast);
  for (const bool shares : {true, false}) {
    PackRules rules = rules_of(100, 100);
    rules.batch.shared_prefix = shares;
    MicroBatch micro;
    micro.fill(items, rules, WantedTokens::kLast);
    EXPECT_EQ(micro.rows(), shares ? 3 + 2 + 1 + 2 : 5 + 3 + 4 + 2);
    const std::vector<int32_t> rows =
        shares ? std::vector<int32_t>{4, 2, 5, 7} : std::vector<int32_t>{4, 7, 11, 13};
    const int32_t last_ids[] = {5, 3, 9, 7};
    ASSERT_EQ(micro.wanted().size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      const WantedRow& w = micro.wanted()[i];
      EXPECT_EQ(w.row, rows[i]) << i;
      EXPECT_EQ(w.item, static_cast<int32_t>(i));
      EXPECT_EQ(w.generated, 0);
      EXPECT_EQ(w.id, last_ids[i]);
    }
  }
}

// Two micro-batches of up to 100 rows each.
TEST(MicroBatchSizes, BalancedPlansShareOutTheWork) {
  PackRules rules = rules_of(100, 100);
  rules.batch.balance = BalanceCost::kTokens;
  const std::vector<Sample> even = apart({30, 30, 30, 30, 30, 30});
  EXPECT_EQ(counts_of(plan_micro_batches(items_of(even), rules)), (Counts{3, 3}));
  const std::vector<Sample> uneven = apart({90, 50, 40, 10});
  const MicroBatchPlan plan = plan_micro_batches(items_of(uneven), rules);
  ASSERT_EQ(plan.size(), 2u);
  for (const auto& part : plan) {
    int64_t rows = 0;
    for (const PackItem& item : part) rows += item.rows;
    EXPECT_GE(rows, 90);
    EXPECT_LE(rows, 100);
  }
}

using Sets = std::set<std::vector<int32_t>>;

Sets sets_of(const MicroBatchPlan& plan) {
  Sets out;
  for (const auto& part : plan) {
    std::vector<int32_t> indices;
    for (const PackItem& item : part) indices.push_back(item.index);
    out.insert(indices);
  }
  return out;
}

// Up to 110 rows each. By rows they are 100 and 100; by work, where the model is so narrow that
// attention is nearly all of it, 90 and 110.
TEST(MicroBatchSizes, WorkIsThatOfTheModelsWidth) {
  const std::vector<Sample> samples = apart({60, 50, 40, 30, 20});
  PackRules rules = rules_of(110, 100);
  rules.batch.balance = BalanceCost::kTokens;
  const Sets by_rows = {{0, 2}, {1, 3, 4}}, by_work = {{0, 3}, {1, 2, 4}};
  EXPECT_EQ(sets_of(plan_micro_batches(items_of(samples), rules)), by_rows);
  rules.batch.balance = BalanceCost::kFlops;
  rules.hidden_size = 100000;
  EXPECT_EQ(sets_of(plan_micro_batches(items_of(samples), rules)), by_rows);
  rules.hidden_size = 1;
  EXPECT_EQ(sets_of(plan_micro_batches(items_of(samples), rules)), by_work);
}

// Two samples of 50 rows, 40 of them of one prompt, are the work of 60 rows.
TEST(MicroBatchSizes, WorkOnAPromptIsCountedOnce) {
  std::vector<Sample> samples(2, of_rows(50, 40, 77));
  for (const Sample& s : apart({50, 40, 30, 20})) samples.push_back(s);
  PackRules rules = rules_of(110, 100);
  rules.batch.balance = BalanceCost::kTokens;
  EXPECT_EQ(sets_of(plan_micro_batches(items_of(samples), rules)), (Sets{{0, 1, 3}, {2, 4, 5}}));
}

using Parts = std::vector<std::pair<size_t, size_t>>;

// First item and number of items of each minibatch.
Parts minibatches(const StepOptions& o, size_t items, int64_t together = 1) {
  const std::vector<PackItem> all(items);
  Parts out;
  for_each_minibatch(
      o, all,
      [&](std::span<const PackItem> some) {
        out.emplace_back(some.data() - all.data(), some.size());
      },
      together);
  return out;
}

TEST(Minibatches, SplitItemsEvenlyInOrder) {
  StepOptions o;
  EXPECT_EQ(minibatches(o, 7), (Parts{{0, 7}}));
  o.batch.num_minibatches = 3;
  EXPECT_EQ(minibatches(o, 7), (Parts{{0, 2}, {2, 2}, {4, 3}}));
  EXPECT_EQ(minibatches(o, 2), (Parts{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_EQ(minibatches(o, 14, 2), (Parts{{0, 4}, {4, 4}, {8, 6}})) << "pairs stay together";
  o.epochs = 2;
  EXPECT_EQ(minibatches(o, 3), (Parts{{0, 1}, {1, 1}, {2, 1}, {0, 1}, {1, 1}, {2, 1}}));
  o.epochs = 1;
  o.batch.global_batch_size = 3;
  EXPECT_EQ(minibatches(o, 7), (Parts{{0, 2}, {2, 2}, {4, 3}}));
  EXPECT_EQ(minibatches(o, 6), (Parts{{0, 3}, {3, 3}}));
  EXPECT_EQ(minibatches(o, 8, 2), (Parts{{0, 4}, {4, 4}})) << "two of up to three pairs";
  EXPECT_EQ(minibatches(o, 0), Parts{});
}

}  // namespace
}  // namespace rl::testing
