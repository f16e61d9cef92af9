// The arrays of one forward: which rows of which sequences, which of them get logits, and who
// samples from these.
#include "rollout/batch_builder.h"

#include <gtest/gtest.h>

#include <memory>

namespace rl {
namespace {

// A request whose samples know the prompt up to `computed`.
std::unique_ptr<ActiveRequest> request_at(uint64_t number, std::vector<int32_t> prompt,
                                          int64_t computed, int64_t samples = 1) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_new_tokens = 4;
  r.num_samples = samples;
  auto active = make_active(r, number, SchedulingPolicy::kFcfs);
  for (Sequence& s : active->sequences) {
    s.sample = make_sample(s);
    s.blocks = {static_cast<int32_t>(number)};
    s.computed = computed;
  }
  return active;
}

std::vector<int32_t> all(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

void expect_rows(const SequenceRows& rows, int32_t first_row, int32_t count, int32_t position) {
  EXPECT_EQ(rows.first_row, first_row);
  EXPECT_EQ(rows.rows, count);
  EXPECT_EQ(rows.first_position, position);
}

TEST(BatchBuilder, ABatchOfOneRowPerSequenceDecodes) {
  const auto a = request_at(0, {5, 6, 7}, 2), b = request_at(1, {8, 9, 3, 4}, 2);
  BatchBuilder builder(8, 4);
  StepSchedule schedule;
  schedule.rows = {{&a->sequences.front(), 1}, {&b->sequences.front(), 1}};
  builder.build(schedule);
  EXPECT_TRUE(builder.batch().decode);
  EXPECT_EQ(builder.batch().rows(), 2);
  EXPECT_EQ(builder.batch().ids[1], 3);
  schedule.rows[1].rows = 2;
  builder.build(schedule);
  EXPECT_FALSE(builder.batch().decode);
  EXPECT_EQ(builder.batch().rows(), 3);
  EXPECT_EQ(builder.logits_rows().size(), 2u);
}

// A leader that completes its prompt, a chunk of a longer one, and a row that decodes.
TEST(BatchBuilder, EverySequenceHasItsRowsAndOnlyLastTokensGetLogits) {
  const auto group = request_at(7, {10, 11, 12, 13, 14}, 2, 3);
  const auto chunk = request_at(8, {20, 21, 22, 23, 24, 25}, 1);
  const auto decode = request_at(9, {30, 31}, 1);
  group->leader = &group->sequences[0];
  group->sequences[2].follows = true;  // the second sample still waits
  BatchBuilder builder(8, 4);
  StepSchedule schedule;
  schedule.rows = {
      {&group->sequences[0], 3}, {&chunk->sequences[0], 2}, {&decode->sequences[0], 1}};
  for (int again = 0; again < 2; ++again) {
    builder.build(schedule);
    const ForwardBatch batch = builder.batch();
    EXPECT_EQ(all(batch.ids), (std::vector<int32_t>{12, 13, 14, 21, 22, 31}));
    ASSERT_EQ(batch.sequences.size(), 3u);
    expect_rows(batch.sequences[0], 0, 3, 2);
    expect_rows(batch.sequences[1], 3, 2, 1);
    expect_rows(batch.sequences[2], 5, 1, 1);
    EXPECT_EQ(batch.sequences[1].blocks, chunk->sequences[0].blocks.data());
    EXPECT_EQ(all(builder.logits_rows()), (std::vector<int32_t>{2, 5}));
    const auto targets = builder.sample_targets();
    ASSERT_EQ(targets.size(), 3u);
    EXPECT_EQ(targets[0].sequence, &group->sequences[0]);
    EXPECT_EQ(targets[1].sequence, &group->sequences[2]);
    EXPECT_EQ(targets[2].sequence, &decode->sequences[0]);
    for (const size_t i : {0, 1, 2}) EXPECT_EQ(targets[i].logits_index, i == 2 ? 1 : 0);
  }
}

TEST(BatchBuilder, FollowersSampleNothingBeforeTheirLeaderHasTheWholePrompt) {
  const auto group = request_at(0, {10, 11, 12, 13, 14}, 2, 2);
  group->leader = &group->sequences[0];
  group->sequences[1].follows = true;
  BatchBuilder builder(8, 4);
  StepSchedule schedule;
  schedule.rows = {{&group->sequences[0], 2}};
  builder.build(schedule);
  EXPECT_EQ(builder.batch().rows(), 2);
  EXPECT_TRUE(builder.logits_rows().empty());
  EXPECT_TRUE(builder.sample_targets().empty());
  schedule.rows[0].rows = 3;
  group->leader = nullptr;  // nobody leads: each samples for itself
  builder.build(schedule);
  EXPECT_EQ(builder.sample_targets().size(), 1u);
}

}  // namespace
}  // namespace rl
