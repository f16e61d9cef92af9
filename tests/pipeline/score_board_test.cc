// Samples that wait for a score: their number, and their deadlines one by one; and complete groups
// on their way to a step.
#include "pipeline/groups/score_board.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace rl {
namespace {

// Samples that finish after their group was dropped wait for nothing.
TEST(ScoreBoard, OnlySamplesOfGroupsThatAreNotDroppedAreUnscored) {
  ScoreBoard board(3, 1);
  const auto finish = [&](uint64_t ordinal, uint32_t slot) {
    auto s = std::make_shared<Sample>();
    s->id = board.sample_id(ordinal, slot);
    s->ordinal = ordinal;
    s->slot = slot;
    s->ids = {1, 2, 3};
    s->prompt_tokens = 2;
    return board.finish(s, -1);
  };
  const auto expect_unscored = [&](int64_t count) {
    EXPECT_EQ(board.unscored(), count);
    EXPECT_EQ(board.waiting().size(), static_cast<size_t>(count));
  };
  board.open(0, -1);
  board.open(1, -1);
  EXPECT_TRUE(finish(0, 0));
  EXPECT_TRUE(finish(1, 2));
  expect_unscored(2);
  board.fail(board.sample_id(0, 0), "no reward", 0);
  expect_unscored(1);
  EXPECT_FALSE(finish(0, 2));
  expect_unscored(1);
  EXPECT_FALSE(finish(0, 1));
  expect_unscored(1);
  board.score(board.sample_id(1, 2), 1.0, 0);
  expect_unscored(0);
  EXPECT_TRUE(finish(1, 0));
  expect_unscored(1);
  board.drop(1, DropReason::kAborted, "");
  expect_unscored(0);
  EXPECT_FALSE(finish(1, 1));
  expect_unscored(0);
}

class ScoreBoardDeadlines : public ::testing::Test {
 protected:
  // The one sample of a group waits until the deadline.
  void wait(uint64_t ordinal, int64_t deadline_ns) {
    auto s = std::make_shared<Sample>();
    s->id = board_.sample_id(ordinal, 0);
    s->ordinal = ordinal;
    s->ids = {1, 2, 3};
    s->prompt_tokens = 2;
    board_.open(ordinal, -1);
    EXPECT_TRUE(board_.finish(s, deadline_ns));
  }
  std::vector<uint64_t> dropped() {
    std::vector<uint64_t> ordinals;
    for (const auto& d : board_.take_dropped()) ordinals.push_back(d.ordinal);
    return ordinals;
  }

  ScoreBoard board_{1, 1};
};

using ScoreBoardSteps = ScoreBoardDeadlines;

using Ordinals = std::vector<uint64_t>;

// The host may read its sample at any time, so the rewards are written into copies.
TEST_F(ScoreBoardSteps, ACompleteGroupIsHandedOverAsScoredCopies) {
  wait(0, -1);
  wait(1, -1);
  const SamplePtr seen = board_.waiting().front();
  EXPECT_EQ(board_.complete(), Ordinals{});
  board_.score(board_.sample_id(0, 0), 0.5, {0.25, 0.25}, 0);
  EXPECT_EQ(board_.complete(), Ordinals{0});
  EXPECT_EQ(board_.rewards(0), std::vector<double>{0.5});
  expect_error(Code::kInternal, [&] { board_.hand_over(1); });
  const std::vector<SamplePtr> group = board_.hand_over(0);
  ASSERT_EQ(group.size(), 1u);
  EXPECT_NE(group[0], seen);
  EXPECT_FALSE(seen->scored);
  EXPECT_TRUE(group[0]->scored);
  EXPECT_EQ(group[0]->id, seen->id);
  EXPECT_EQ(group[0]->ids, seen->ids);
  EXPECT_EQ(group[0]->reward, 0.5);
  EXPECT_EQ(group[0]->reward_parts, (std::vector<double>{0.25, 0.25}));
  EXPECT_EQ(seen.use_count(), 1) << "the board no longer holds it";
  EXPECT_EQ(board_.complete(), Ordinals{});
  expect_error(Code::kInternal, [&] { board_.hand_over(0); });
  const Error e =
      expect_error(Code::kDuplicate, [&] { board_.score(board_.sample_id(0, 0), 1, 0); });
  EXPECT_TRUE(contains(e.message, "already has a score")) << e.message;
}

// A step that trains on some groups leaves the others open.
TEST_F(ScoreBoardSteps, AStepEndsTheGroupsThatItReserved) {
  for (const uint64_t ordinal : {0u, 1u, 2u}) wait(ordinal, -1);
  for (const uint64_t ordinal : {0u, 2u}) board_.score(board_.sample_id(ordinal, 0), 1, 0);
  const std::vector<SamplePtr> batch = board_.hand_over(0), later = board_.hand_over(2);
  board_.reserve(batch);
  board_.unreserve();
  board_.commit();
  EXPECT_EQ(board_.ledger().counts().prompts_trained, 0);
  board_.reserve(batch);
  board_.commit();
  EXPECT_EQ(board_.ledger().counts().prompts_trained, 1);
  EXPECT_EQ(board_.ledger().open_ordinals(), (Ordinals{1, 2}));
  board_.drop(2, DropReason::kFiltered, "no");
  EXPECT_EQ(dropped(), Ordinals{2});
  EXPECT_EQ(board_.ledger().open_ordinals(), Ordinals{1});
}

TEST_F(ScoreBoardDeadlines, TheEarliestIsFoundInAnyOrder) {
  EXPECT_EQ(board_.next_expiry(), std::nullopt);
  wait(0, 200);
  EXPECT_EQ(board_.next_expiry(), 200);
  wait(1, 100);
  EXPECT_EQ(board_.next_expiry(), 100);
  wait(2, 300);
  EXPECT_EQ(board_.next_expiry(), 100);
  wait(3, -1);
  EXPECT_EQ(board_.next_expiry(), 100);
}

// A deadline that has passed is none to wake up for: the loop would never sleep again.
TEST_F(ScoreBoardDeadlines, AnExpiryMovesOnToTheNext) {
  wait(0, 100);
  wait(1, 250);
  wait(2, -1);
  board_.expire(100);
  EXPECT_EQ(dropped(), Ordinals{}) << "a deadline itself is not late";
  board_.expire(101);
  EXPECT_EQ(dropped(), Ordinals{0});
  EXPECT_EQ(board_.next_expiry(), 250);
  board_.expire(251);
  EXPECT_EQ(dropped(), Ordinals{1});
  EXPECT_EQ(board_.next_expiry(), std::nullopt);
  EXPECT_EQ(board_.unscored(), 1);
}

TEST_F(ScoreBoardDeadlines, TheNextExpiryIsTheEarliestOfThoseLeft) {
  wait(0, 100);
  wait(1, 250);
  wait(2, 300);
  board_.expire(101);
  EXPECT_EQ(dropped(), Ordinals{0});
  EXPECT_EQ(board_.next_expiry(), 250);
}

TEST_F(ScoreBoardDeadlines, AScoreInTimeIsNoLongerWaitedFor) {
  wait(0, 100);
  wait(1, 200);
  board_.score(board_.sample_id(0, 0), 1.0, 100);
  board_.expire(150);
  EXPECT_EQ(dropped(), Ordinals{});
  EXPECT_EQ(board_.next_expiry(), 200);
  expect_error(Code::kLate, [&] { board_.score(board_.sample_id(1, 0), 1.0, 201); });
  EXPECT_EQ(dropped(), Ordinals{1});
}

// What a sample had generated when its run ended is counted, though it never finished.
TEST_F(ScoreBoardDeadlines, TokensOfAbortedSamplesAreDiscarded) {
  board_.open(0, -1);
  const auto running = std::make_shared<Sample>();
  running->ordinal = 0;
  running->ids = {1, 2, 3, 4, 5};
  running->prompt_tokens = 2;
  board_.abandon(DropReason::kShutdown, {running});
  EXPECT_EQ(board_.ledger().counts().tokens_generated, 3);
  EXPECT_EQ(board_.ledger().counts().tokens_discarded, 3);
  EXPECT_EQ(dropped(), Ordinals{0});
}

}  // namespace
}  // namespace rl
