// The budget of tokens is what a micro-batch ends at: its KV blocks hold whatever the tokens admit,
// up to the sequences that they are planned for, and beyond them they are never exceeded.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "train/batch/micro_batch.h"
#include "train/passes/train_buffers.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

StepOptions options_of(int64_t rows, BalanceCost balance, bool share = true) {
  StepOptions o;
  o.max_tokens = rows;
  o.batch.balance = balance;
  o.batch.shared_prefix = share;
  return o;
}

PackRules rules_of(const StepOptions& o, int64_t block_size) {
  PackRules rules;
  rules.batch = o.batch;
  rules.rows = rules.longest = o.max_tokens;
  rules.block_size = block_size;
  rules.blocks = training_kv_blocks(o, block_size);
  rules.hidden_size = 64;
  return rules;
}

// Prompts of their own id, each with so many samples whose rows behind it are given.
void add_group(std::vector<Sample>& samples, int32_t prompt, const std::vector<int32_t>& own) {
  const uint64_t ordinal = samples.size();
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<int32_t> ids(static_cast<size_t>(prompt + own[i] + 1),
                             static_cast<int32_t>(ordinal));
    samples.push_back(make_sample(std::move(ids), prompt, ordinal, static_cast<uint32_t>(i)));
  }
}

std::vector<PackItem> items_of(const std::vector<Sample>& samples) {
  std::vector<PackItem> items;
  for (const Sample& s : samples)
    items.push_back(make_pack_item(s, static_cast<int32_t>(items.size()), WantedTokens::kLoss));
  return items;
}

int64_t blocks_of(const std::vector<PackItem>& part, const PackRules& rules) {
  MicroBatch micro;
  micro.fill(part, rules, WantedTokens::kLoss);
  return micro.blocks();
}

// 30 + 8 x 9 rows a prompt; a block holds 32, so that every sample takes two.
TEST(TokenBudget, GroupsOfShortResponsesFillTheTokens) {
  std::vector<Sample> samples;
  for (int group = 0; group < 8; ++group) add_group(samples, 30, std::vector<int32_t>(8, 9));
  for (const auto balance : {BalanceCost::kNone, BalanceCost::kTokens, BalanceCost::kFlops}) {
    const PackRules rules = rules_of(options_of(512, balance), 32);
    EXPECT_EQ(plan_micro_batches(items_of(samples), rules).size(), 2u);
  }
}

// Each group is 4 samples and 34 rows: 512 rows hold 15 groups, 24 samples 6.
TEST(TokenBudget, ALimitOfSamplesIsKept) {
  std::vector<Sample> samples;
  for (int group = 0; group < 24; ++group) add_group(samples, 30, std::vector<int32_t>(4, 1));
  for (const auto balance : {BalanceCost::kNone, BalanceCost::kTokens, BalanceCost::kFlops}) {
    PackRules rules = rules_of(options_of(512, balance), 16);
    EXPECT_EQ(plan_micro_batches(items_of(samples), rules).size(), 2u);
    rules.samples = 24;
    const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules);
    EXPECT_EQ(plan.size(), 4u);
    for (const auto& part : plan) EXPECT_LE(part.size(), 24u);
    rules.samples = 3;  // fewer than a group has
    for (const auto& part : plan_micro_batches(items_of(samples), rules))
      EXPECT_LE(part.size(), 3u);
  }
}

// Prompts that end anywhere in a block, and rows that take as many blocks as they can.
std::vector<Sample> costly_samples(std::mt19937& rng, size_t count, unsigned block_size) {
  std::vector<Sample> samples;
  while (samples.size() < count) {
    const auto prompt = static_cast<int32_t>(1 + rng() % (2 * block_size));
    std::vector<int32_t> own;
    for (size_t n = std::min<size_t>(1 + rng() % 9, count - samples.size()); n > 0; --n)
      own.push_back(static_cast<int32_t>(rng() % 3 == 0 ? rng() % 40 : rng() % 4));
    add_group(samples, prompt, own);
  }
  return samples;
}

TEST(TokenBudget, BlocksCutNothingThatTheTokensAdmit) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    const int64_t rows = 110 + static_cast<int64_t>(rng() % 1500);
    const unsigned block_size = rng() % 2 == 0 ? 16 : 32;
    const BalanceCost balance = static_cast<BalanceCost>(rng() % 3);
    const PackRules rules = rules_of(options_of(rows, balance, rng() % 3 != 0), block_size);
    PackRules endless = rules;
    endless.blocks = 1 << 30;
    const std::vector<Sample> samples = costly_samples(rng, 1 + rng() % 64, block_size);
    const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules);
    const MicroBatchPlan expected = plan_micro_batches(items_of(samples), endless);
    ASSERT_EQ(plan.size(), expected.size()) << rows << " rows, blocks of " << block_size;
    for (size_t i = 0; i < plan.size(); ++i) {
      ASSERT_EQ(plan[i].size(), expected[i].size());
      ASSERT_LE(blocks_of(plan[i], rules), rules.blocks);
    }
  }
}

// Groups that fill no micro-batch, some that fit none, and lengths whose best cut is that in order.
TEST(TokenBudget, BalancingTakesNoMoreMicroBatchesThanTheOrderOfTheBatch) {
  std::mt19937 rng(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Sample> samples;
    for (int group = 1 + static_cast<int>(rng() % 12); group > 0; --group) {
      std::vector<int32_t> own(1 + rng() % 4);
      for (auto& rows : own) rows = static_cast<int32_t>(rng() % 30);
      add_group(samples, static_cast<int32_t>(1 + rng() % 30), own);
    }
    const int64_t rows = 60 + static_cast<int64_t>(rng() % 60);
    const auto cut = [&](BalanceCost balance) {
      return plan_micro_batches(items_of(samples), rules_of(options_of(rows, balance), 16));
    };
    const MicroBatchPlan in_order = cut(BalanceCost::kNone);
    for (const auto balance : {BalanceCost::kTokens, BalanceCost::kFlops}) {
      const MicroBatchPlan plan = cut(balance);
      ASSERT_LE(plan.size(), in_order.size()) << "round " << round;
    }
  }
}

// Rows are padded to 256 here, which a budget of 250 has no room for: it ends at 224.
TEST(TokenBudget, PaddingIsPartOfTheBudget) {
  std::vector<Sample> samples;
  for (int i = 0; i < 32; ++i) add_group(samples, 10, {2 + i % 7});  // 474 rows
  for (const auto balance : {BalanceCost::kNone, BalanceCost::kTokens, BalanceCost::kFlops}) {
    StepOptions o = options_of(250, balance);
    o.batch.pad_to = 32;
    const PackRules rules = rules_of(o, 16);
    for (const auto& part : plan_micro_batches(items_of(samples), rules)) {
      MicroBatch micro;
      micro.fill(part, rules, WantedTokens::kLoss);
      EXPECT_LE(micro.rows(), 224);
    }
  }
}

// Behind 17 rows, which end in a second block of 16, padding up to 32 begins a third.
TEST(TokenBudget, PaddingBehindASequenceHasABlockOfItsOwn) {
  StepOptions o = options_of(32, BalanceCost::kNone);
  o.batch.packed = o.batch.shared_prefix = false;
  o.batch.micro_batch_size = 4;
  o.batch.pad_to = 32;
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) add_group(samples, 1, {16});
  const PackRules rules = rules_of(o, 16);
  const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(blocks_of(plan[0], rules), 4 * 3);
  EXPECT_GE(rules.blocks, 4 * 3);
}

// Work is shared out by the rows that are computed, those of prompts too: 60 and 30 + 30.
TEST(TokenBudget, APromptOfOneSampleCountsInFull) {
  std::vector<Sample> samples;
  add_group(samples, 50, {10});
  for (int i = 0; i < 2; ++i) add_group(samples, 1, {29});
  const PackRules rules = rules_of(options_of(100, BalanceCost::kTokens), 16);
  const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules);
  ASSERT_EQ(plan.size(), 2u);
  for (const auto& part : plan) {
    int64_t rows = 0;
    for (const PackItem& item : part) rows += item.rows;
    EXPECT_EQ(rows, 60);
  }
}

// More sequences than the blocks are planned for: 3000 of one row in 2048 rows.
TEST(TokenBudget, VeryManySequencesStopAtTheBlocks) {
  std::vector<Sample> samples;
  for (int i = 0; i < 3000; ++i) add_group(samples, 1, {0});
  for (const BalanceCost balance : {BalanceCost::kNone, BalanceCost::kTokens}) {
    const PackRules rules = rules_of(options_of(2048, balance), 32);
    const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules);
    EXPECT_GT(plan.size(), 2u);
    for (const auto& part : plan) EXPECT_LE(blocks_of(part, rules), rules.blocks);
  }
}

TEST(TokenBudget, BlocksFollowFromTheSamplesOfAStep) {
  EXPECT_EQ(kv_sequences(512, 0), 64);
  EXPECT_EQ(kv_sequences(4096, 0), 256);
  EXPECT_EQ(kv_sequences(4096, 40), 40);
  StepOptions o = options_of(4096, BalanceCost::kNone);
  EXPECT_EQ(training_kv_blocks(o, 32), (4096 + 256 * 63) / 32);
  EXPECT_EQ(forward_kv_blocks(o, 8192, 32), (8192 + 512 * 63) / 32);
  o.batch.step_samples = 64;
  EXPECT_EQ(training_kv_blocks(o, 32), (4096 + 64 * 63) / 32);
  EXPECT_EQ(forward_kv_blocks(o, 8192, 32), (8192 + 64 * 63) / 32);
  o.batch.num_minibatches = 4;
  EXPECT_EQ(training_kv_blocks(o, 32), (4096 + 18 * 63) / 32);
  o.batch.global_batch_size = 8;  // samples, or pairs
  EXPECT_EQ(training_kv_blocks(o, 32), (4096 + 16 * 63) / 32);
  o.batch.shared_prefix = false;
  EXPECT_EQ(training_kv_blocks(o, 32), (4096 + 16 * 31) / 32);
  EXPECT_EQ(training_kv_blocks(options_of(9, BalanceCost::kNone), 32), 9);
}

// Sequences of so many rows under one budget: verl raises the count until the budget holds.
TEST(TokenBudget, BalancedPlansNeedNoMoreMicroBatchesThanVerl) {
  using Json = nlohmann::json;
  std::ifstream in(RL_FIXTURES "/batching/batching.json");
  const Json file = Json::parse(in);
  int cases = 0;
  for (const Json& c : file["dynamic"]) {
    if (!c["params"].empty()) continue;
    std::vector<Sample> samples;
    for (const Json& length : c["lens"]) add_group(samples, 1, {length.get<int32_t>() - 1});
    for (const int64_t block_size : {16, 32, 128}) {
      const StepOptions o = options_of(c["max_tokens"], BalanceCost::kTokens);
      const PackRules rules = rules_of(o, block_size);
      const MicroBatchPlan plan = plan_micro_batches(items_of(samples), rules);
      EXPECT_LE(plan.size(), c["count"].get<size_t>()) << c["list"] << " " << c["max_tokens"];
      for (const auto& part : plan) {
        int64_t rows = 0;
        for (const PackItem& item : part) rows += item.rows;
        EXPECT_LE(rows, o.max_tokens);
      }
    }
    ++cases;
  }
  EXPECT_EQ(cases, 24);
}

}  // namespace
}  // namespace rl::testing
