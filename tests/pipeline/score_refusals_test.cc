// What a score board refuses, counts and reports, each with the sample or group it names.
#include <gtest/gtest.h>

#include <cmath>

#include "pipeline/groups/score_board.h"
#include "support/expect_error.h"

namespace rl {
namespace {

constexpr int64_t kSize = 3;
constexpr uint64_t kFirstId = 100;

class ScoreRefusals : public ::testing::Test {
 protected:
  uint64_t id(uint64_t ordinal, uint32_t slot) { return board_.sample_id(ordinal, slot); }
  SamplePtr sample(uint64_t ordinal, uint32_t slot) {
    auto s = std::make_shared<Sample>();
    s->id = id(ordinal, slot);
    s->ordinal = ordinal;
    s->slot = slot;
    s->ids = {1, 2, 3, 4};
    s->prompt_tokens = 2;
    return s;
  }
  void open(uint64_t ordinal, int64_t deadline_ns = -1) {
    board_.open(ordinal, static_cast<int64_t>(10 * ordinal));
    for (uint32_t slot = 0; slot < kSize; ++slot) board_.finish(sample(ordinal, slot), deadline_ns);
  }
  void score_all(uint64_t ordinal) {
    for (uint32_t slot = 0; slot < kSize; ++slot) board_.score(id(ordinal, slot), 1, 0);
  }
  Error refused(Code code, uint64_t sample_id, double reward = 1, int64_t now_ns = 0) {
    return expect_error(code, [&] { board_.score(sample_id, reward, now_ns); });
  }
  const LedgerCounts& counts() const { return board_.ledger().counts(); }

  ScoreBoard board_{kSize, kFirstId};
};

TEST_F(ScoreRefusals, IdsCountOnFromGroupToGroup) {
  EXPECT_EQ(id(0, 0), 100u);
  EXPECT_EQ(id(0, 2), 102u);
  EXPECT_EQ(id(1, 0), 103u);
  EXPECT_EQ(board_.slot_of(105), 2u);
  EXPECT_EQ(board_.slot_of(106), 0u);
  EXPECT_EQ(board_.group_size(), 3);
  EXPECT_TRUE(board_.owns(100));
  EXPECT_FALSE(board_.owns(99));
  expect_error(Code::kInternal, [&] { board_.slot_of(99); });
}

TEST_F(ScoreRefusals, AnIdOfNoWaitingSampleIsUnknown) {
  open(0);
  board_.open(1, -1);  // still being generated
  int64_t unknown = 0;
  for (const uint64_t bad : {uint64_t{0}, kFirstId - 1, id(1, 0), id(1, 2), id(2, 0), UINT64_MAX}) {
    EXPECT_EQ(refused(Code::kNotFound, bad).message,
              str("no sample ", bad, " is waiting for a score"));
    EXPECT_EQ(counts().unknown_scores, ++unknown);
    expect_error(Code::kNotFound, [&] { board_.fail(bad, "no", 0); });
    EXPECT_EQ(counts().unknown_scores, ++unknown);
  }
  EXPECT_EQ(board_.unscored(), 3);
  EXPECT_EQ(counts().duplicate_scores + counts().late_scores + counts().nonfinite_scores, 0);
}

TEST_F(ScoreRefusals, ASecondScoreIsToldTheFirst) {
  open(0);
  board_.score(id(0, 1), 0.25, 0);
  EXPECT_EQ(refused(Code::kDuplicate, id(0, 1)).message, "sample 101 already has a score, 0.25");
  expect_error(Code::kDuplicate, [&] { board_.fail(id(0, 1), "no", 0); });
  EXPECT_EQ(counts().duplicate_scores, 2);
  EXPECT_EQ(board_.unscored(), 2);
  EXPECT_TRUE(board_.take_dropped().empty());
}

TEST_F(ScoreRefusals, AScoreOfATrainedGroupIsADuplicate) {
  open(0);
  score_all(0);
  board_.reserve(board_.hand_over(0));
  board_.commit();
  EXPECT_EQ(refused(Code::kDuplicate, id(0, 2)).message,
            "sample 102 has already been scored and used");
  EXPECT_EQ(counts().duplicate_scores, 1);
}

// The run that a checkpoint continues had these groups.
TEST_F(ScoreRefusals, AScoreOfARestoredRunsGroupIsADuplicate) {
  LedgerCounts c;
  c.late_scores = 4;
  board_.restore(c, 2);
  expect_error(Code::kDuplicate, [&] { board_.score(id(1, 2), 1, 0); });
  expect_error(Code::kNotFound, [&] { board_.score(id(2, 0), 1, 0); });
  EXPECT_EQ(counts().late_scores, 4);
  open(2);
  score_all(2);
  EXPECT_EQ(board_.complete(), std::vector<uint64_t>{2});
}

TEST_F(ScoreRefusals, AScoreOfADroppedGroupIsLate) {
  open(0);
  open(1);
  board_.fail(id(1, 1), "the judge is away", 0);
  EXPECT_EQ(refused(Code::kLate, id(1, 0)).message,
            "the score of sample 103 is late: its group, ordinal 1, was dropped");
  expect_error(Code::kLate, [&] { board_.fail(id(1, 1), "again", 0); });
  EXPECT_EQ(counts().late_scores, 2);
  EXPECT_EQ(board_.unscored(), 3);
  const auto dropped = board_.take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].ordinal, 1u);
  EXPECT_EQ(dropped[0].data_row, 10);
  EXPECT_EQ(dropped[0].reason, DropReason::kRewardError);
  EXPECT_EQ(dropped[0].message, "sample 104 has no reward: the judge is away");
  EXPECT_TRUE(board_.take_dropped().empty());
}

TEST_F(ScoreRefusals, AFailureMayHaveNoReason) {
  open(0);
  board_.fail(id(0, 0), "", 0);
  EXPECT_EQ(board_.take_dropped().at(0).message, "sample 100 has no reward: no reason given");
}

TEST_F(ScoreRefusals, ANonFiniteScoreLeavesItsSampleWaiting) {
  open(0);
  EXPECT_EQ(refused(Code::kNonFinite, id(0, 1), INFINITY).message,
            "the score of sample 101 is inf; the sample is still waiting for one");
  const Error e = expect_error(Code::kNonFinite, [&] {
    board_.score(id(0, 1), 1, {0.5, 2, -INFINITY}, 0);
  });
  EXPECT_EQ(e.message,
            "a part of the score of sample 101 is -inf; the sample is still waiting for one");
  EXPECT_EQ(counts().nonfinite_scores, 2);
  EXPECT_EQ(board_.unscored(), 3);
  board_.score(id(0, 1), 1, 0);
  EXPECT_EQ(board_.unscored(), 2);
}

TEST_F(ScoreRefusals, AScoreAfterItsDeadlineDropsTheGroup) {
  open(0, 50);
  open(1, 60);
  board_.score(id(0, 0), 1, 50);
  refused(Code::kLate, id(0, 1), 1, 51);
  EXPECT_EQ(counts().late_scores, 1);
  const auto dropped = board_.take_dropped();
  ASSERT_EQ(dropped.size(), 1u) << "once, though two samples are late";
  EXPECT_EQ(dropped[0].reason, DropReason::kRewardTimeout);
  EXPECT_EQ(dropped[0].message, "sample 101 was not scored within pipeline.reward_timeout_ns");
  EXPECT_EQ(board_.unscored(), 3);
  EXPECT_EQ(board_.next_expiry(), 60);
}

TEST_F(ScoreRefusals, ADeadlineMayBeTheStartOfTheClock) {
  open(0, 0);
  EXPECT_EQ(board_.next_expiry(), 0);
  board_.expire(0);
  EXPECT_EQ(board_.unscored(), 3);
  board_.expire(1);
  EXPECT_EQ(board_.unscored(), 0);
}

// The reason is that of the first drop; the group leaves when its last sample is generated.
TEST_F(ScoreRefusals, AGroupIsDroppedOnce) {
  board_.open(0, 7);
  board_.finish(sample(0, 2), -1);
  board_.drop(0, DropReason::kNonFinite, "first");
  board_.drop(0, DropReason::kFiltered, "second");
  EXPECT_EQ(counts().prompts_open, 1);
  EXPECT_FALSE(board_.decided());
  EXPECT_FALSE(board_.finish(sample(0, 0), -1));
  EXPECT_EQ(counts().prompts_open, 1);
  EXPECT_FALSE(board_.finish(sample(0, 1), -1));
  EXPECT_EQ(counts().prompts_open, 0);
  EXPECT_EQ(counts().prompts_dropped[static_cast<size_t>(DropReason::kNonFinite)], 1);
  EXPECT_EQ(counts().tokens_discarded, 6);
  EXPECT_TRUE(board_.decided());
  const auto dropped = board_.take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].data_row, 7);
  EXPECT_EQ(dropped[0].message, "first");
}

TEST_F(ScoreRefusals, ScoresAndSamplesOfAGroupAreBySlot) {
  open(0);
  open(1);
  EXPECT_FALSE(board_.decided());
  board_.score(id(0, 2), 0.75, {0.5, 0.25}, 0);
  board_.score(id(0, 0), 0.125, {0.125}, 0);
  EXPECT_EQ(board_.complete(), std::vector<uint64_t>{});
  expect_error(Code::kInternal, [&] { board_.rewards(0); });
  board_.score(id(0, 1), 0.5, 0);
  EXPECT_EQ(board_.complete(), std::vector<uint64_t>{0});
  EXPECT_FALSE(board_.decided());
  EXPECT_EQ(board_.rewards(0), (std::vector<double>{0.125, 0.5, 0.75}));
  const std::vector<SamplePtr> group = board_.hand_over(0);
  ASSERT_EQ(group.size(), 3u);
  for (uint32_t slot = 0; slot < kSize; ++slot) {
    EXPECT_EQ(group[slot]->slot, slot);
    EXPECT_EQ(group[slot]->id, id(0, slot));
  }
  EXPECT_EQ(group[0]->reward, 0.125);
  EXPECT_EQ(group[0]->reward_parts, std::vector<double>{0.125});
  EXPECT_EQ(group[1]->reward, 0.5);
  EXPECT_TRUE(group[1]->reward_parts.empty());
  EXPECT_EQ(group[2]->reward, 0.75);
  EXPECT_EQ(group[2]->reward_parts, (std::vector<double>{0.5, 0.25}));
  score_all(1);
  EXPECT_TRUE(board_.decided());
}

// Each keeps the reason it has.
TEST_F(ScoreRefusals, AnEndedRunDropsWhatIsOpen) {
  open(0);
  score_all(0);
  open(1);
  board_.open(2, 20);
  board_.drop(2, DropReason::kNonFinite, "its logits");
  board_.take_dropped();
  SamplePtr running = sample(2, 1);
  board_.abandon(DropReason::kShutdown, {running, sample(2, 2)});
  EXPECT_EQ(board_.unscored(), 0);
  EXPECT_TRUE(board_.waiting().empty());
  EXPECT_TRUE(board_.decided());
  EXPECT_EQ(counts().prompts_dropped[static_cast<size_t>(DropReason::kShutdown)], 2);
  EXPECT_EQ(counts().attempts_discarded[static_cast<size_t>(DropReason::kShutdown)], 6);
  EXPECT_EQ(counts().attempts_discarded[static_cast<size_t>(DropReason::kNonFinite)], 3);
  EXPECT_EQ(counts().tokens_generated, 2 * 3 * 2 + 4);
  const auto dropped = board_.take_dropped();
  ASSERT_EQ(dropped.size(), 2u);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(dropped[i].ordinal, i);
    EXPECT_EQ(dropped[i].data_row, static_cast<int64_t>(10 * i));
    EXPECT_EQ(dropped[i].reason, DropReason::kShutdown);
    EXPECT_EQ(dropped[i].message, "the step ended: shutdown");
  }
  for (const uint64_t ordinal : {0u, 1u, 2u}) refused(Code::kLate, id(ordinal, 0));
}

TEST_F(ScoreRefusals, ASampleFinishesOnceAndInItsSlot) {
  open(0);
  expect_error(Code::kInternal, [&] { board_.finish(sample(0, 1), -1); });
  expect_error(Code::kInternal, [&] { board_.finish(sample(0, 3), -1); });
  expect_error(Code::kInternal, [&] { board_.finish(sample(1, 0), -1); });
  expect_error(Code::kInternal, [&] { board_.open(0, -1); });
  expect_error(Code::kInternal, [] { ScoreBoard(0, 1); });
}

TEST_F(ScoreRefusals, AStepTakesOnlyWhatWasHandedOver) {
  open(0);
  score_all(0);
  expect_error(Code::kInternal, [&] {
    const SamplePtr batch[] = {sample(0, 0)};
    board_.reserve(batch);
  });
  expect_error(Code::kInternal, [&] {
    const SamplePtr batch[] = {sample(5, 0)};
    board_.reserve(batch);
  });
}

// 65536 dropped groups are remembered; older ones only as groups that were.
TEST(ScoreBoardMemory, OldDroppedGroupsAreForgotten) {
  ScoreBoard board(1, 0);
  constexpr uint64_t kRemembered = 65536;
  for (uint64_t ordinal = 0; ordinal <= kRemembered; ++ordinal) {
    board.open(ordinal, -1);
    if (ordinal == kRemembered) {
      expect_error(Code::kLate, [&] { board.score(0, 1, 0); });
    }
    const auto s = std::make_shared<Sample>();
    s->id = s->ordinal = ordinal;
    s->ids = {1};
    s->prompt_tokens = 1;
    board.finish(s, -1);
    board.drop(ordinal, DropReason::kFiltered, "");
  }
  expect_error(Code::kDuplicate, [&] { board.score(0, 1, 0); });
  expect_error(Code::kLate, [&] { board.score(1, 1, 0); });
  expect_error(Code::kLate, [&] { board.score(kRemembered, 1, 0); });
}

}  // namespace
}  // namespace rl
