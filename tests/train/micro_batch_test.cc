// The cut into micro-batches.
#include "train/batch/micro_batch.h"

#include <gtest/gtest.h>

#include <numeric>

#include "train_rig.h"

namespace rl::testing {
namespace {

std::vector<PackItem> items_of(const std::vector<Sample>& samples, WantedTokens which) {
  std::vector<PackItem> items;
  for (const Sample& s : samples)
    items.push_back(make_pack_item(s, static_cast<int32_t>(items.size()), which));
  return items;
}

PackRules rules_of(int64_t rows, int64_t blocks, bool share = true) {
  PackRules rules;
  rules.batch.shared_prefix = share;
  rules.rows = rows;
  rules.blocks = blocks;
  rules.block_size = 16;
  rules.longest = rows;
  return rules;
}

TEST(MicroBatch, RowsEndBeforeTheLastTokenThatCarriesLoss) {
  Sample s = make_sample({10, 11, 12, 13, 14, 15}, 2, 0, 0);
  s.loss_mask = {0, 1, 1, 0};
  s.temperature = 0.5f;
  const PackItem item = make_pack_item(s, 7, WantedTokens::kLoss);
  EXPECT_EQ(item.rows, 4);
  EXPECT_EQ(item.wanted, 2);
  MicroBatch micro;
  micro.fill({&item, 1}, rules_of(4, 1), WantedTokens::kLoss);
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

// Some neighbours have one prompt, responses of 1 to 30 tokens; some tokens carry no loss.
std::vector<Sample> grouped_samples(int groups, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Sample> out;
  for (int g = 0; g < groups; ++g) {
    std::vector<int32_t> prompt(1 + rng() % 40);
    for (auto& id : prompt) id = static_cast<int32_t>(rng() % 256);
    const auto count = static_cast<uint32_t>(1 + rng() % 6);
    for (uint32_t slot = 0; slot < count; ++slot) {
      std::vector<int32_t> ids = prompt;
      for (size_t n = 1 + rng() % 30; n > 0; --n) ids.push_back(static_cast<int32_t>(rng() % 256));
      out.push_back(make_sample(std::move(ids), static_cast<int32_t>(prompt.size()),
                                static_cast<uint64_t>(g), slot));
      for (auto& mask : out.back().loss_mask) mask = rng() % 4 != 0;
    }
  }
  return out;
}

// The ids a sequence of the batch stands for, those of its shared prefix first.
std::vector<int32_t> ids_of(const ForwardBatch& batch, const SequenceRows& s) {
  std::vector<int32_t> ids;
  if (s.prefix_sequence >= 0)
    ids = ids_of(batch, batch.sequences[static_cast<size_t>(s.prefix_sequence)]);
  EXPECT_EQ(static_cast<int32_t>(ids.size()), s.first_position);
  const auto own = batch.ids.subspan(static_cast<size_t>(s.first_row), static_cast<size_t>(s.rows));
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

void expect_blocks_apart(const ForwardBatch& batch, const PackRules& rules) {
  std::vector<bool> used(static_cast<size_t>(rules.blocks));
  for (const SequenceRows& s : batch.sequences) {
    const int64_t shared = s.first_position / rules.block_size;
    for (int64_t b = 0; b * rules.block_size < s.first_position + s.rows; ++b) {
      if (b < shared) {
        EXPECT_EQ(s.blocks[b], batch.sequences[static_cast<size_t>(s.prefix_sequence)].blocks[b]);
        continue;
      }
      ASSERT_LT(s.blocks[b], rules.blocks);
      EXPECT_FALSE(used[static_cast<size_t>(s.blocks[b])]);
      used[static_cast<size_t>(s.blocks[b])] = true;
    }
  }
}

// Each wanted row has the ids of its sample up to the token it predicts.
void expect_wanted_rows(const MicroBatch& micro, const std::vector<Sample>& samples) {
  const ForwardBatch batch = micro.batch();
  for (const WantedRow& w : micro.wanted()) {
    const Sample& sample = samples[static_cast<size_t>(w.item)];
    const auto seq = std::ranges::find_if(batch.sequences, [&](const SequenceRows& s) {
      return w.row >= s.first_row && w.row < s.first_row + s.rows;
    });
    ASSERT_NE(seq, batch.sequences.end());
    std::vector<int32_t> ids = ids_of(batch, *seq);
    ids.resize(static_cast<size_t>(seq->first_position + w.row - seq->first_row + 1));
    const auto target = static_cast<size_t>(sample.prompt_tokens + w.generated);
    ASSERT_EQ(ids, std::vector<int32_t>(sample.ids.begin(),
                                        sample.ids.begin() + static_cast<ptrdiff_t>(target)));
    EXPECT_EQ(w.id, sample.ids[target]);
  }
}

TEST(MicroBatch, PlansCoverEverySampleInOrderWithinTheRules) {
  const std::vector<Sample> samples = grouped_samples(30, 8);
  for (const WantedTokens which : {WantedTokens::kLoss, WantedTokens::kGenerated}) {
    const std::vector<PackItem> items = items_of(samples, which);
    for (const bool share : {false, true}) {
      for (const PackRules& rules :
           {rules_of(70, 12, share), rules_of(128, 14, share), rules_of(9000, 900, share)}) {
        std::vector<std::pair<int32_t, int32_t>> seen, expected;
        MicroBatch micro;
        for (const auto& part : plan_micro_batches(items, rules)) {
          micro.fill(part, rules, which);
          EXPECT_GT(micro.rows(), 0);
          EXPECT_LE(micro.rows(), rules.rows);
          expect_blocks_apart(micro.batch(), rules);
          expect_wanted_rows(micro, samples);
          for (const WantedRow& w : micro.wanted()) seen.emplace_back(w.item, w.generated);
        }
        for (const PackItem& item : items) {
          for (int32_t g = 0; g < item.sample->generated(); ++g)
            if (wants(*item.sample, g, which)) expected.emplace_back(item.index, g);
        }
        EXPECT_EQ(seen, expected);
      }
    }
  }
}

TEST(MicroBatch, APromptOfNeighboursIsOneSequence) {
  std::vector<Sample> samples;
  std::vector<int32_t> prompt(20);
  std::iota(prompt.begin(), prompt.end(), 100);
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<int32_t> ids = prompt;
    for (uint32_t t = 0; t <= 2 * i; ++t) ids.push_back(static_cast<int32_t>(10 * i + t));
    samples.push_back(make_sample(std::move(ids), 20, 0, i));
  }
  samples.push_back(make_sample({1, 2, 3}, 1, 1, 0));
  const PackRules rules = rules_of(64, 16);
  MicroBatch micro;
  micro.fill(items_of(samples, WantedTokens::kLoss), rules, WantedTokens::kLoss);
  const ForwardBatch batch = micro.batch();
  // The response of one token has no row of its own; those of 3 and 5 tokens have 2 and 4.
  ASSERT_EQ(batch.sequences.size(), 4u);
  EXPECT_EQ(batch.rows(), 20 + 2 + 4 + 2);
  EXPECT_EQ(batch.sequences[1].first_position, 20);
  EXPECT_EQ(batch.sequences[1].prefix_sequence, 0);
  EXPECT_EQ(batch.sequences[2].prefix_sequence, 0);
  EXPECT_EQ(batch.sequences[3].prefix_sequence, -1);
  EXPECT_EQ(batch.sequences[1].blocks[0], batch.sequences[0].blocks[0]);
  EXPECT_NE(batch.sequences[1].blocks[1], batch.sequences[0].blocks[1]);
  int of_last_prompt_row = 0;
  for (const WantedRow& w : micro.wanted()) of_last_prompt_row += w.row == 19;
  EXPECT_EQ(of_last_prompt_row, 3);
}

TEST(MicroBatch, AGroupThatFitsOneMicroBatchIsNotCut) {
  std::vector<Sample> samples;
  const auto add_group = [&](uint64_t ordinal, int32_t prompt, uint32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(prompt) + 11, static_cast<int32_t>(ordinal));
    for (uint32_t i = 0; i < count; ++i) samples.push_back(make_sample(ids, prompt, ordinal, i));
  };
  add_group(0, 30, 3);   // 60 rows
  add_group(1, 30, 4);   // 70 rows: fits no rest of 40
  add_group(2, 50, 12);  // 170 rows: fits none, and fills what is left
  std::vector<size_t> counts;
  const PackRules rules = rules_of(100, 50);
  for (const auto& part : plan_micro_batches(items_of(samples, WantedTokens::kLoss), rules))
    counts.push_back(part.size());
  EXPECT_EQ(counts, (std::vector<size_t>{3, 4, 5, 5, 2}));
}

int64_t rows_of(const std::vector<PackItem>& part, const PackRules& rules) {
  MicroBatch micro;
  micro.fill(part, rules, WantedTokens::kLoss);
  return micro.rows();
}

TEST(MicroBatch, BalancedPlansKeepTheBudgetAndNarrowTheSpread) {
  const std::vector<Sample> samples = grouped_samples(60, 9);
  const std::vector<PackItem> items = items_of(samples, WantedTokens::kLoss);
  for (const BalanceCost balance : {BalanceCost::kTokens, BalanceCost::kFlops}) {
    PackRules rules = rules_of(256, 34);
    rules.hidden_size = 8;
    const auto in_order = plan_micro_batches(items, rules);
    rules.batch.balance = balance;
    const auto balanced = plan_micro_batches(items, rules);
    EXPECT_LE(balanced.size(), in_order.size());
    std::vector<int32_t> seen;
    int64_t least = rules.rows, most = 0;
    for (const auto& part : balanced) {
      const int64_t rows = rows_of(part, rules);
      least = std::min(least, rows);
      most = std::max(most, rows);
      for (const PackItem& item : part) seen.push_back(item.index);
      EXPECT_TRUE(std::ranges::is_sorted(part, {}, &PackItem::index));
    }
    EXPECT_LE(most, rules.rows);
    if (balance == BalanceCost::kTokens) {
      EXPECT_LE(most - least, 64);  // a run at most
    }
    std::ranges::sort(seen);
    std::vector<int32_t> expected;
    for (const PackItem& item : items)
      if (item.rows > 0) expected.push_back(item.index);
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(rows_of(balanced[0], rules), rows_of(plan_micro_batches(items, rules)[0], rules));
  }
}

TEST(MicroBatch, PaddingFillsUpToALengthOrAMultiple) {
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < 3; ++i)
    samples.push_back(
        make_sample(std::vector<int32_t>(10 + 5 * i, 9), 4 + static_cast<int32_t>(i), 0, i));
  const std::vector<PackItem> items = items_of(samples, WantedTokens::kLoss);  // 9, 14 and 19 rows
  PackRules rules = rules_of(200, 100);
  EXPECT_EQ(rows_of(items, rules), 42);
  rules.batch.pad_to = 32;
  EXPECT_EQ(rows_of(items, rules), 64);
  rules.batch.packed = false;
  EXPECT_EQ(rows_of(items, rules), 3 * 32);
  rules.batch.pad_to = 1;
  EXPECT_EQ(rows_of(items, rules), 3 * 19);
  rules.batch.seq_len = 50;
  EXPECT_EQ(rows_of(items, rules), 3 * 50);
  rules.batch.packed = true;
  EXPECT_EQ(rows_of(items, rules), 50);
  rules.longest = 3;  // padding in pieces
  MicroBatch micro;
  micro.fill(items, rules, WantedTokens::kLoss);
  EXPECT_EQ(micro.rows(), 50);
  EXPECT_EQ(micro.batch().sequences.size(), 3u + 3u);
  EXPECT_EQ(micro.wanted().size(), 30u);  // 6, 10 and 14 response tokens
}

TEST(MicroBatch, ManyShortSequencesStopAtTheBlocks) {
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < 20; ++i)
    samples.push_back(make_sample({static_cast<int32_t>(i), 2}, 1, 0, i));
  const MicroBatchPlan plan =
      plan_micro_batches(items_of(samples, WantedTokens::kLoss), rules_of(64, 8));
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].size(), 8u);
}

}  // namespace
}  // namespace rl::testing
