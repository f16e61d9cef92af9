// Runs that stop, pause, fail, time out or resume while turns are open.
#include <chrono>
#include <thread>

#include "support/expect_error.h"
#include "turn_rig.h"

namespace rl {
namespace {

using testing::answer;
using testing::finish;
using testing::first_turns;
using testing::kSecond;
using testing::kTurnSamples;
using testing::next_of;
using testing::Rig;
using testing::RunLog;
using testing::turn_options;
using testing::use_tool;

TEST(TurnEnds, AStopDropsTheGroupsOfOpenTurns) {
  const TempDir dir;
  Rig rig(turn_options(dir));
  Pipeline& p = rig.pipeline();
  p.start();
  const std::vector<SamplePtr> samples = first_turns(p);
  answer(p, samples[0]->id, {9});  // its next turn is under way, or has ended: its event may wait
  EXPECT_TRUE(p.stop(30 * kSecond));
  rig.on_turn = [](Pipeline&, const TurnEvent&) {};  // a reply would be late
  const RunLog log = rig.serve();
  ASSERT_EQ(log.dropped.size(), 2u);
  for (const auto& d : log.dropped) EXPECT_EQ(d->reason, DropReason::kShutdown);
  const PipelineStatus status = p.status();
  EXPECT_EQ(status.unreplied, 0);
  EXPECT_EQ(status.ledger.attempts_in_flight, 0);
  EXPECT_EQ(status.ledger.tokens_in_flight, 0);
  EXPECT_GE(status.ledger.tokens_generated, 4 * static_cast<int64_t>(kTurnSamples));
  expect_error(Code::kLate, [&] { answer(p, samples[1]->id, {9}); });
}

TEST(TurnEnds, ARunThatIsDestroyedWithOpenTurnsEnds) {
  const TempDir dir;
  Rig rig(turn_options(dir));
  rig.pipeline().start();
  first_turns(rig.pipeline());
}

TEST(TurnEnds, AResumedRunDrawsTheGroupsOfOpenTurnsAgain) {
  const TempDir dir;
  const std::vector<std::string> steps = {"pipeline.total_steps=3", "checkpoint.every_steps=1"};
  OptionSet whole = turn_options(dir, steps), cut = whole;
  whole.set_string("checkpoint.dir", dir.file("whole"));
  cut.set_string("checkpoint.dir", dir.file("cut"));
  cut.set_text("checkpoint.resume", "auto");
  Rig uncut(whole);
  uncut.on_turn = use_tool;
  uncut.start_and_serve();
  {
    Rig rig(cut);
    rig.on_turn = [&](Pipeline& p, const TurnEvent& e) {
      if (p.status().step == 1) {
        p.stop(0);
      } else {
        use_tool(p, e);
      }
    };
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.steps.size(), 1u);
    EXPECT_FALSE(log.dropped.empty());
  }
  Rig rig(cut);
  rig.on_turn = use_tool;
  EXPECT_EQ(rig.start_and_serve().steps.size(), 2u);
  EXPECT_EQ(rig.model().weight_digest(), uncut.model().weight_digest());
}

void pause_and_wait(Pipeline& p) {
  p.pause();
  for (int i = 0; i < 1000 && p.status().state != PipelineState::kPaused; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(p.status().state, PipelineState::kPaused);
}

TEST(TurnEnds, APauseHoldsRepliesBack) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.total_steps=1"}));
  Pipeline& p = rig.pipeline();
  p.start();
  const std::vector<SamplePtr> samples = first_turns(p);
  pause_and_wait(p);
  for (const SamplePtr& s : samples) finish(p, s->id);
  EXPECT_EQ(p.next(kSecond / 10).status, Code::kTimeout) << "nothing happens in a pause";
  p.unpause();
  EXPECT_EQ(rig.serve().steps.size(), 1u);
}

TEST(TurnEnds, AnInterruptLosesNoTurn) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.total_steps=1"}));
  Pipeline& p = rig.pipeline();
  p.start();
  ASSERT_NE(next_of(p, EventKind::kTurn), nullptr);
  p.interrupt();
  EXPECT_EQ(p.next(60 * kSecond).status, Code::kInterrupted);
  for (size_t i = 1; i < kTurnSamples; ++i) EXPECT_NE(next_of(p, EventKind::kTurn), nullptr);
  EXPECT_EQ(p.status().unreplied, static_cast<int64_t>(kTurnSamples));
}

TEST(TurnEnds, AGroupIsDroppedWhenAReplyDoesNotCome) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.reply_timeout_ns=300ms", "pipeline.total_steps=1"}));
  Pipeline& p = rig.pipeline();
  uint64_t forgotten = 0;
  rig.on_turn = [&](Pipeline& of, const TurnEvent& e) {
    if (e.sample->ordinal == 0 && e.sample->slot == 1) {
      forgotten = e.sample->id;
    } else if (e.sample->ordinal == 0) {
      finish(of, e.sample->id);
    } else {
      use_tool(of, e);
    }
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardTimeout);
  EXPECT_TRUE(contains(log.dropped[0]->message, "pipeline.reply_timeout_ns"));
  EXPECT_EQ(log.steps.at(0).get("training/samples"), 2.0);
  EXPECT_EQ(p.status().ledger.attempts_in_flight, 0);
  expect_error(Code::kLate, [&] { answer(p, forgotten, {9}); });
}

TEST(TurnEnds, AFailureInPlaceOfAReplyDropsTheGroup) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.total_steps=1"}));
  rig.on_turn = [](Pipeline& p, const TurnEvent& e) {
    if (e.sample->ordinal == 1) {
      if (e.sample->slot == 0) p.fail(e.sample->id, "the tool is broken");
    } else {
      use_tool(p, e);
    }
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardError);
  EXPECT_TRUE(contains(log.dropped[0]->message, "the tool is broken"));
  EXPECT_EQ(log.steps.at(0).get("training/samples"), 2.0);
}

// A reply that is on its way when its group is dropped, here by a sample that fails later, is not
// generated on.
TEST(TurnEnds, AReplyOfADroppedGroupIsGivenUp) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.total_steps=1"}));
  Pipeline& p = rig.pipeline();
  p.start();
  const std::vector<SamplePtr> samples = first_turns(p);
  pause_and_wait(p);
  for (const SamplePtr& s : samples) {
    if (s->ordinal == 1 || s->slot == 0) answer(p, s->id, {9});
  }
  for (const SamplePtr& s : samples) {
    if (s->ordinal == 0 && s->slot == 1) p.fail(s->id, "no");
  }
  p.unpause();
  rig.on_turn = use_tool;
  const RunLog log = rig.serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.samples.size(), 2u);
  EXPECT_EQ(p.status().ledger.attempts_in_flight, 0);
  EXPECT_EQ(p.status().ledger.tokens_in_flight, 0);
}

}  // namespace
}  // namespace rl
