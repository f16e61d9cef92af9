// Control by itself: staged options, what is due, requests of checkpoints, and what a failure to
// close becomes.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "../comm/local_ranks.h"
#include "pipeline/loop/control.h"
#include "support/expect_error.h"
#include "support/fake_clock.h"

namespace rl {
namespace {

Settings with_steps(int64_t steps) {
  OptionSet o;
  o.set_i64("pipeline.total_steps", steps);
  return Settings(o);
}

struct Host {
  PipelineState state() const { return control.state(control.lock()); }
  FakeClock clock;
  Control control{clock, with_steps(3)};
};

TEST(ControlRules, StagedOptionsHoldOnceTheyAreApplied) {
  Host run;
  EXPECT_FALSE(run.control.apply_staged());
  run.control.stage(with_steps(5), run.control.lock());
  EXPECT_EQ(run.control.settings().pipeline.total_steps, 3);
  run.control.stage(with_steps(7), run.control.lock());
  EXPECT_TRUE(run.control.apply_staged());
  EXPECT_EQ(run.control.settings().pipeline.total_steps, 7) << "the newest";
  EXPECT_FALSE(run.control.apply_staged());
  EXPECT_EQ(run.control.settings().pipeline.total_steps, 7);
}

TEST(ControlRules, ARunIsRunningFromItsStartToItsEnd) {
  Host run;
  const auto running = [&] { return run.control.running(run.control.lock()); };
  const auto ended = [&] { return run.control.ended(run.control.lock()); };
  EXPECT_FALSE(running());
  EXPECT_FALSE(ended());
  EXPECT_EQ(run.state(), PipelineState::kIdle);
  run.control.refuse_second_start(run.control.lock());
  run.control.set_started(run.control.lock());
  EXPECT_TRUE(running());
  const Error e = expect_error(Code::kFailedPrecondition,
                               [&] { run.control.refuse_second_start(run.control.lock()); });
  EXPECT_EQ(e.message, "the pipeline was already started; its state is idle");
  run.control.end(nullptr);
  EXPECT_FALSE(running());
  EXPECT_TRUE(ended());
  EXPECT_EQ(run.state(), PipelineState::kDone);
  EXPECT_EQ(run.control.failure(run.control.lock()), nullptr);
}

// The others wait for it meanwhile, for comm.timeout_ns.
TEST(ControlRules, ARankComesBackFromItsHostBeforeTheOthersGiveUp) {
  OptionSet options;
  options.set_text("comm.timeout_ns", "40ms");
  run_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
    comm::Group group(std::move(transport), {kLongNs});
    FakeClock clock;
    Control control(clock, Settings(options));
    control.share(SharedInputs(TensorRanks(group)), [](const ScheduledEvent&) {});
    Control::Lock held = control.lock();
    const auto begin = std::chrono::steady_clock::now();
    control.wait(held, std::nullopt);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(800));
  });
}

TEST(ControlRules, AStopBeforeTheStartIsTheEnd) {
  Host run;
  EXPECT_TRUE(run.control.stop(0));
  EXPECT_EQ(run.state(), PipelineState::kDone);
  EXPECT_TRUE(run.control.ended(run.control.lock()));
  EXPECT_EQ(run.control.queue()->pop(0).status, Code::kDone);
  const Error e = expect_error(Code::kFailedPrecondition,
                               [&] { run.control.refuse_second_start(run.control.lock()); });
  EXPECT_EQ(e.message, "the pipeline was already started; its state is done");
}

// The longest timeout has no end that a clock could show.
TEST(ControlRules, AStopWithTheLongestTimeoutSetsNoDeadline) {
  Host run;
  run.clock.advance(1000);
  EXPECT_TRUE(run.control.stop(INT64_MAX));
  EXPECT_FALSE(run.control.out_of_time());
  run.clock.advance(1'000'000'000);
  EXPECT_FALSE(run.control.out_of_time());
}

// An evaluation that is due stays due until it begins; a scheduled checkpoint is of its step.
TEST(ControlRules, WhatIsDueAddsUp) {
  using Due = Control::Due;
  Host run;
  const auto add = [&](bool evaluation, bool checkpoint) {
    run.control.add_due(evaluation, checkpoint, run.control.lock());
    return run.control.due();
  };
  EXPECT_EQ(add(false, false), Due::kNothing);
  EXPECT_EQ(add(false, true), Due::kCheckpoint);
  EXPECT_EQ(add(true, false), Due::kEvaluation);
  EXPECT_EQ(add(false, false), Due::kEvaluation);
  run.control.begin_eval();
  EXPECT_EQ(run.control.due(), Due::kNothing);
  EXPECT_EQ(add(false, true), Due::kCheckpoint);
  run.control.end_checkpoint(run.control.begin_checkpoint(), nullptr);
  EXPECT_EQ(run.control.due(), Due::kNothing);
}

TEST(ControlRules, ARequestedCheckpointIsOverWhenItIsWrittenOrTheRunEnds) {
  for (const bool written : {true, false}) {
    Host run;
    run.control.set_started(run.control.lock());
    bool got = !written;
    std::jthread host([&] {
      Control::Lock lock = run.control.lock();
      got = run.control.await_checkpoint(lock, -1);
    });
    while (run.control.due() != Control::Due::kCheckpoint) std::this_thread::yield();
    if (written) {
      run.control.end_checkpoint(run.control.begin_checkpoint(), nullptr);
    } else {
      run.control.end(nullptr);
    }
    host.join();
    EXPECT_EQ(got, written);
  }
}

TEST(ControlRules, TheErrorOfARequestedCheckpointIsThrownToWhoAskedForIt) {
  Host run;
  run.control.set_started(run.control.lock());
  Code got = Code::kOk;
  std::jthread host([&] {
    Control::Lock lock = run.control.lock();
    try {
      run.control.await_checkpoint(lock, -1);
    } catch (const Error& e) {
      got = e.code;
    }
  });
  while (run.control.due() != Control::Due::kCheckpoint) std::this_thread::yield();
  run.control.end_checkpoint(run.control.begin_checkpoint(),
                             std::make_shared<Error>(Code::kIo, "no room"));
  host.join();
  EXPECT_EQ(got, Code::kIo);
}

TEST(ControlRules, OnlyAPauseOrAStopMustBeActedOn) {
  Host run;
  run.control.set_started(run.control.lock());
  const auto must_act = [&] { return run.control.must_act(run.control.lock()); };
  EXPECT_FALSE(must_act());
  run.control.pause();
  EXPECT_TRUE(must_act());
  run.control.unpause();
  EXPECT_FALSE(must_act());
  EXPECT_TRUE(run.control.enter(PipelineState::kFetching));
  EXPECT_EQ(run.state(), PipelineState::kFetching);
  EXPECT_FALSE(run.control.stopping());
  run.control.stop(0);
  EXPECT_TRUE(must_act());
}

// A pause does not hold up a stop.
TEST(ControlRules, AStopEndsAPause) {
  Host run;
  run.control.set_started(run.control.lock());
  run.control.pause();
  run.control.stop(0);
  EXPECT_FALSE(run.control.enter(PipelineState::kGenerating));
  EXPECT_EQ(run.state(), PipelineState::kStopping);
}

TEST(ControlRules, AWaitForADeadlineThatHasPassedIsShort) {
  Host run;
  run.clock.advance(5'000'000'000);
  Control::Lock lock = run.control.lock();
  const auto before = std::chrono::steady_clock::now();
  run.control.wait(lock, 4'000'000'000);
  run.control.wait(lock, 5'000'000'000);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(900));
}

class LogLines final : public LogSink {
 public:
  void write(const LogRecord& record) override {
    levels.push_back(record.level);
    lines.emplace_back(record.message);
  }
  std::vector<LogLevel> levels;
  std::vector<std::string> lines;
};

TEST(ControlRules, AFailureToCloseIsLoggedAndKeepsItsKind) {
  const auto closed = [](auto&& work) {
    Host run;
    Logger logger;
    const auto log = std::make_shared<LogLines>();
    logger.set_sink(log);
    run.control.run_closing(logger, "the trace", work);
    EXPECT_EQ(log->levels, std::vector<LogLevel>{LogLevel::kError});
    const std::shared_ptr<const Error> kept = run.control.close_failure(run.control.lock());
    EXPECT_EQ(log->lines, std::vector<std::string>{kept->message});
    return *kept;
  };
  Error e = closed([] { throw Error(Code::kNotFound, "no such directory"); });
  EXPECT_EQ(e.code, Code::kIo);
  EXPECT_EQ(e.message, "the trace could not be closed: no such directory");
  ASSERT_NE(e.cause, nullptr);
  EXPECT_EQ(e.cause->code, Code::kNotFound);
  e = closed([] { throw std::bad_alloc(); });
  EXPECT_EQ(e.code, Code::kOutOfMemory);
  EXPECT_EQ(e.message, "the trace could not be closed: out of memory");
  e = closed([] { throw std::runtime_error("a surprise"); });
  EXPECT_EQ(e.code, Code::kInternal);
  EXPECT_EQ(e.message, "the trace could not be closed: a surprise");
}

TEST(ControlRules, WhatRunsAtTheEndIsNotLogged) {
  Host run;
  Logger logger;
  const auto log = std::make_shared<LogLines>();
  logger.set_sink(log);
  run.control.run_closing(logger, "the trace", [] {});
  EXPECT_TRUE(log->lines.empty());
  EXPECT_EQ(run.control.close_failure(run.control.lock()), nullptr);
}

}  // namespace
}  // namespace rl
