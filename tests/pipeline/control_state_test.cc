// Control by itself: names of its states, which of them a stop lets the loop finish, what is due
// between two steps, and deadlines.
#include <gtest/gtest.h>

#include "pipeline/loop/control.h"
#include "support/expect_error.h"
#include "support/fake_clock.h"

namespace rl {
namespace {

struct Started {
  Started() { control.set_started(control.lock()); }
  PipelineState state() const { return control.state(control.lock()); }
  FakeClock clock;
  Control control{clock, Settings(OptionSet())};
};

TEST(ControlState, EveryStateHasItsName) {
  const char* const names[] = {"idle",     "fetching",   "generating", "scoring",
                               "training", "publishing", "evaluating", "checkpointing",
                               "paused",   "stopping",   "done",       "failed"};
  int32_t state = 0;
  for (const char* name : names)
    EXPECT_STREQ(pipeline_state_name(static_cast<PipelineState>(state++)), name);
  EXPECT_EQ(state, static_cast<int32_t>(PipelineState::kFailed) + 1);
}

TEST(ControlState, AStopLetsTheLoopFinishUpdatesAndFilesOnly) {
  for (int32_t i = 0; i <= static_cast<int32_t>(PipelineState::kCheckpointing); ++i) {
    Started run;
    EXPECT_FALSE(run.control.stop(0));
    const auto next = static_cast<PipelineState>(i);
    const bool finishes =
        next == PipelineState::kPublishing || next == PipelineState::kCheckpointing;
    EXPECT_EQ(run.control.enter(next), finishes) << pipeline_state_name(next);
    EXPECT_EQ(run.state(), finishes ? next : PipelineState::kStopping);
    EXPECT_EQ(run.control.stopping(), !finishes);
  }
}

TEST(ControlState, AnEvaluationComesBeforeACheckpoint) {
  Started run;
  EXPECT_EQ(run.control.due(), Control::Due::kNothing);
  run.control.add_due(true, true, run.control.lock());
  EXPECT_EQ(run.control.due(), Control::Due::kEvaluation);
  run.control.begin_eval();
  EXPECT_EQ(run.control.due(), Control::Due::kCheckpoint);
  run.control.request_eval();
  EXPECT_EQ(run.control.due(), Control::Due::kEvaluation);
  run.control.begin_eval();
  run.control.end_checkpoint(run.control.begin_checkpoint(), nullptr);
  EXPECT_EQ(run.control.due(), Control::Due::kNothing);
}

TEST(ControlState, ACheckpointRequestedWhileOneIsWrittenIsStillDue) {
  Started run;
  const auto request = [&] {
    Control::Lock lock = run.control.lock();
    expect_error(Code::kTimeout, [&] { run.control.await_checkpoint(lock, 0); });
  };
  request();
  const uint64_t requested = run.control.begin_checkpoint();
  request();
  run.control.end_checkpoint(requested, nullptr);
  EXPECT_EQ(run.control.due(), Control::Due::kCheckpoint);
  run.control.end_checkpoint(run.control.begin_checkpoint(), nullptr);
  EXPECT_EQ(run.control.due(), Control::Due::kNothing);
}

TEST(ControlState, OnlyAPositiveTimeoutIsADeadline) {
  Started run;
  run.clock.advance(1000);
  EXPECT_FALSE(run.control.stop(0));
  EXPECT_FALSE(run.control.out_of_time());
  run.clock.advance(1'000'000'000);
  EXPECT_FALSE(run.control.out_of_time());
  EXPECT_FALSE(run.control.stop(100));
  EXPECT_FALSE(run.control.out_of_time());
  run.clock.advance(99);
  EXPECT_FALSE(run.control.out_of_time());
  EXPECT_FALSE(run.control.stopping());
  run.clock.advance(1);
  EXPECT_TRUE(run.control.out_of_time());
  EXPECT_TRUE(run.control.stopping());
}

TEST(ControlState, TheEarliestDeadlineHolds) {
  Started run;
  EXPECT_FALSE(run.control.stop(100));
  EXPECT_FALSE(run.control.stop(10'000));
  EXPECT_FALSE(run.control.stop(0));
  run.clock.advance(100);
  EXPECT_TRUE(run.control.out_of_time());
}

TEST(ControlState, TheFirstFailureToCloseIsKept) {
  Started run;
  Logger logger;
  run.control.run_closing(logger, "the first", [] {});
  run.control.run_closing(logger, "the second", [] { throw Error(Code::kIo, "no space"); });
  run.control.run_closing(logger, "the third", [] { throw std::bad_alloc(); });
  const auto kept = run.control.close_failure(run.control.lock());
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->message, "the second could not be closed: no space");
  EXPECT_EQ(run.state(), PipelineState::kIdle);
}

TEST(ControlState, TheEndClosesTheQueueAndKeepsTheCause) {
  Started run;
  run.control.end(std::make_shared<Error>(Code::kDataLoss, "a bad row"));
  EXPECT_EQ(run.state(), PipelineState::kFailed);
  EXPECT_EQ(run.control.queue()->pop(0).status, Code::kDone);
  EXPECT_EQ(run.control.failure(run.control.lock())->code, Code::kDataLoss);
  EXPECT_TRUE(run.control.stop(0));
  expect_error(Code::kFailedPrecondition, [&] { run.control.request_eval(); });
  expect_error(Code::kFailedPrecondition,
               [&] { run.control.refuse_second_start(run.control.lock()); });
}

}  // namespace
}  // namespace rl
