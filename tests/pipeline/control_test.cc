// Stop, pause, interrupt and checkpoints, from every state of the loop. Nothing may hang.
#include <atomic>
#include <chrono>
#include <thread>

#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"

namespace rl {
namespace {

using testing::kSecond;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

// Pulls events until the run ends, scoring nothing.
Code drain(Pipeline& p) {
  for (;;) {
    const Code status = p.next(60 * kSecond).status;
    if (status != Code::kOk) return status;
  }
}

PipelineState wait_for_state(Pipeline& p, PipelineState wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (p.status().state != wanted && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return p.status().state;
}

void expect_balanced(const LedgerCounts& c) {
  EXPECT_EQ(c.attempts_in_flight, 0);
  EXPECT_EQ(c.tokens_in_flight, 0);
  EXPECT_EQ(c.prompts_open, 0);
  EXPECT_EQ(c.attempts_started, c.attempts_trained + c.discarded());
  EXPECT_EQ(c.tokens_generated, c.tokens_trained + c.tokens_discarded);
  EXPECT_EQ(c.prompts_drawn, c.prompts_trained + c.dropped());
}

TEST(Control, StopBeforeTheStartEndsTheRun) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  EXPECT_EQ(rig.pipeline().next(0).status, Code::kTimeout);
  EXPECT_TRUE(rig.pipeline().stop(kSecond));
  EXPECT_EQ(rig.pipeline().next(0).status, Code::kDone);
  expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().start(); });
}

TEST(Control, StopWhileWaitingForPromptsEndsTheRun) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("data.path", "");
  Rig rig(o);
  rig.pipeline().start();
  EXPECT_EQ(wait_for_state(rig.pipeline(), PipelineState::kFetching), PipelineState::kFetching);
  EXPECT_TRUE(rig.pipeline().stop(10 * kSecond));
  EXPECT_EQ(rig.pipeline().next(0).status, Code::kDone);
}

TEST(Control, StopWhileWaitingForScoresDropsTheGroupsAsShutdown) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  rig.pipeline().start();
  EXPECT_EQ(wait_for_state(rig.pipeline(), PipelineState::kScoring), PipelineState::kScoring);
  EXPECT_EQ(rig.pipeline().status().unscored, 16);
  EXPECT_TRUE(rig.pipeline().stop(10 * kSecond));
  EXPECT_EQ(drain(rig.pipeline()), Code::kDone);
  const LedgerCounts c = rig.pipeline().status().ledger;
  expect_balanced(c);
  EXPECT_EQ(c.attempts_discarded[static_cast<size_t>(DropReason::kShutdown)], 16);
  EXPECT_EQ(rig.pipeline().status().unscored, 0);
}

TEST(Control, WaitingForScoresIsTimeOfTheReward) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("pipeline.total_steps=1");
  Rig rig(o);
  rig.pipeline().start();
  ASSERT_EQ(wait_for_state(rig.pipeline(), PipelineState::kScoring), PipelineState::kScoring);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const RunLog log = rig.serve();
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_GE(log.steps[0].get("timing_s/reward").value(), 0.2);
}

TEST(Control, StopAtAnyMomentLeavesTheLedgerBalanced) {
  const TempDir dir;
  for (int moment = 0; moment < 24; ++moment) {
    SCOPED_TRACE(moment);
    OptionSet o = tiny_options(dir);
    o.set_i64("pipeline.total_steps", 0);
    Rig rig(o);
    int events = 0;
    rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
      if (events++ == moment * 3) p.stop(0);
      try {
        p.score(s->id, low_id_reward(*s));
      } catch (const Error& e) {
        EXPECT_EQ(e.code, Code::kLate) << e.message;
      }
    };
    rig.start_and_serve();
    expect_balanced(rig.pipeline().status().ledger);
  }
}

TEST(Control, StopWhileGeneratingAbortsTheEngine) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("engine.max_model_len", 128);
  o.set_i64("sampling.max_new_tokens", 120);
  Rig rig(o);
  rig.pipeline().start();
  wait_for_state(rig.pipeline(), PipelineState::kGenerating);
  EXPECT_TRUE(rig.pipeline().stop(10 * kSecond));
  EXPECT_EQ(drain(rig.pipeline()), Code::kDone);
  expect_balanced(rig.pipeline().status().ledger);
}

TEST(Control, APausedLoopIsIdleAndContinues) {
  const TempDir dir;
  Rig whole(tiny_options(dir));
  const std::string expected = whole.start_and_serve().fingerprint();
  Rig rig(tiny_options(dir));
  rig.pipeline().pause();
  rig.pipeline().start();
  EXPECT_EQ(wait_for_state(rig.pipeline(), PipelineState::kPaused), PipelineState::kPaused);
  EXPECT_EQ(rig.pipeline().next(50'000'000).status, Code::kTimeout);
  rig.pipeline().unpause();
  int samples = 0;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, low_id_reward(*s));
    if (++samples % 5 != 0) return;
    p.pause();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    p.unpause();
  };
  EXPECT_EQ(rig.serve().fingerprint(), expected);
}

// Whatever wakes the loop, it goes on waiting.
TEST(Control, APausedLoopDoesNothingWhenItIsWoken) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  rig.pipeline().pause();
  rig.pipeline().start();
  for (int i = 0; i < 20; ++i) {
    wait_for_state(rig.pipeline(), PipelineState::kPaused);
    rig.pipeline().pause();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(rig.pipeline().next(20'000'000).status, Code::kTimeout);
  EXPECT_EQ(rig.pipeline().status().ledger.attempts_started, 0);
  rig.pipeline().unpause();
  rig.serve();
}

TEST(Control, ASecondStartIsRefusedWithTheState) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  const auto refused = [&](const char* state) {
    const Error e = expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().start(); });
    EXPECT_TRUE(contains(e.message, str("its state is ", state)));
  };
  rig.pipeline().pause();
  rig.pipeline().start();
  wait_for_state(rig.pipeline(), PipelineState::kPaused);
  refused("paused");
  rig.pipeline().unpause();
  rig.serve();
  refused("done");
}

TEST(Control, APausedLoopCanBeStopped) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  rig.pipeline().pause();
  rig.pipeline().start();
  wait_for_state(rig.pipeline(), PipelineState::kPaused);
  EXPECT_TRUE(rig.pipeline().stop(10 * kSecond));
  EXPECT_EQ(drain(rig.pipeline()), Code::kDone);
}

TEST(Control, InterruptEndsOneWait) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rig.pipeline().interrupt();
  });
  EXPECT_EQ(rig.pipeline().next(30 * kSecond).status, Code::kInterrupted);
  EXPECT_EQ(rig.pipeline().next(0).status, Code::kTimeout);
}

TEST(Control, DoneIsSticky) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  rig.start_and_serve();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig.pipeline().next(0).status, Code::kDone);
  EXPECT_EQ(rig.pipeline().status().state, PipelineState::kDone);
  EXPECT_TRUE(rig.pipeline().stop(0));
}

TEST(Control, ARunStoppedInMidStepResumesAsIfItHadNotBeen) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 4);
  Rig whole(o);
  const RunLog expected = whole.start_and_serve();
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  uint64_t unscored_id = 0;
  {
    Rig first(o);
    first.on_score = [&](Pipeline& p, const SamplePtr& s) {
      if (s->ordinal >= 8) {
        if (unscored_id == 0) unscored_id = s->id;
        p.stop(0);
      } else {
        p.score(s->id, low_id_reward(*s));
      }
    };
    EXPECT_EQ(first.start_and_serve().steps.size(), 2u);
    EXPECT_TRUE(contains(first.pipeline().checkpoint(0), "step_000002"));
  }
  o.set_string("checkpoint.resume", "auto");
  Rig second(o);
  const RunLog rest = second.start_and_serve();
  ASSERT_EQ(rest.steps.size(), 2u);
  EXPECT_EQ(rest.steps[1].without_times().to_json(), expected.steps[3].without_times().to_json());
  EXPECT_EQ(second.model().weight_digest(), whole.model().weight_digest());
  // The samples that were not scored come again under their ids.
  bool again = false;
  for (const SamplePtr& s : rest.samples) again = again || s->id == unscored_id;
  EXPECT_TRUE(again);
}

TEST(Control, ACheckpointOnDemandComesAtTheStepBoundary) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  Rig rig(o);
  std::jthread asker;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->id == 1) {
      asker =
          std::jthread([&p] { EXPECT_TRUE(contains(p.checkpoint(30 * kSecond), "step_00000")); });
    }
    p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  asker.join();
  EXPECT_GE(rig.pipeline().checkpoint(0).size(), 1u);
}

// A long wait for a checkpoint keeps no other call with a shorter one waiting.
TEST(Control, ACheckpointWithoutPatienceDoesNotWaitForAPatientOne) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  Rig rig(o);
  rig.pipeline().pause();
  rig.pipeline().start();
  EXPECT_EQ(wait_for_state(rig.pipeline(), PipelineState::kPaused), PipelineState::kPaused);
  std::atomic<bool> patient_is_done{false};
  std::jthread patient([&] {
    EXPECT_TRUE(contains(rig.pipeline().checkpoint(-1), "step_000000"));
    patient_is_done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  expect_error(Code::kTimeout, [&] { rig.pipeline().checkpoint(0); });
  expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().start(); });
  EXPECT_FALSE(patient_is_done);
  rig.pipeline().stop(0);
  EXPECT_EQ(drain(rig.pipeline()), Code::kDone);
  patient.join();
  EXPECT_TRUE(patient_is_done);
}

TEST(Control, AStopBesideTheStartEndsTheRunOrRefusesTheStart) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("data.path", "");
  for (int i = 0; i < 8; ++i) {
    Rig rig(o);
    std::atomic<bool> go{false};
    std::jthread stopper([&] {
      while (!go) std::this_thread::yield();
      rig.pipeline().stop(0);
    });
    go = true;
    try {
      rig.pipeline().start();
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kFailedPrecondition) << e.message;
    }
    stopper.join();
    EXPECT_EQ(drain(rig.pipeline()), Code::kDone);
    EXPECT_TRUE(rig.pipeline().stop(10 * kSecond));
    EXPECT_EQ(rig.pipeline().status().state, PipelineState::kDone);
  }
}

TEST(Control, AnEndedPipelineTakesNoMoreRows) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("data.path", "");
  Rig rig(o);
  rig.pipeline().start();
  EXPECT_TRUE(rig.pipeline().feed_ids({1, 2}, "before"));
  EXPECT_TRUE(rig.pipeline().stop(10 * kSecond));
  expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().feed_ids({1, 2}, "after"); });
  expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().feed_line(R"({"ids": [1]})"); });
}

TEST(Control, OthersActBetweenTheStepsOfARunningEngine) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto runtime = std::make_shared<Runtime>(o);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kModel);
  EngineSession engine(model, testing::for_session(o));
  Request r = request_from(o);
  r.prompt = {1, 2, 3};
  r.num_samples = 16;
  for (int i = 0; i < 300; ++i) engine.submit(r);
  std::jthread runner([&] { engine.run(); });
  while (engine.stats().forwards == 0) std::this_thread::yield();
  EXPECT_FALSE(engine.idle());
  engine.abort_all();
  EXPECT_TRUE(engine.idle());
  runner.join();
  EXPECT_EQ(engine.take_finished().size(), 300u * 16u);
}

TEST(Control, AFailureIsTheStickyResult) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  std::vector<std::string> rows = testing::id_rows(3);
  rows.push_back(R"({"ids": [1, 2], "surprise": 1})");
  testing::write_lines(dir.file("data.jsonl"), rows);
  o.set_bool("data.shuffle", false);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  Rig rig(o);
  rig.pipeline().start();
  for (int i = 0; i < 2; ++i) {
    const Error e = expect_error(Code::kDataLoss, [&] { drain(rig.pipeline()); });
    EXPECT_EQ(e.location, dir.file("data.jsonl") + ":4");
    EXPECT_TRUE(contains(e.message, "surprise"));
  }
  EXPECT_EQ(rig.pipeline().status().state, PipelineState::kFailed);
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().checkpoint(kSecond); });
  ASSERT_NE(e.cause, nullptr);
  EXPECT_EQ(e.cause->code, Code::kDataLoss);
}

// Every file operation of a run fails once: the run ends with that error, or it is refused before
// it starts; the books balance and nothing hangs.
TEST(Control, AnyFailingFileOperationEndsTheRunWithItsCause) {
  const TempDir dir;
  int failed = 0;
  for (int64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    OptionSet o = tiny_options(dir);
    o.set_i64("pipeline.total_steps", 1);
    o.set_string("checkpoint.dir", dir.file(str("checkpoints", at)));
    o.set_i64("checkpoint.every_steps", 1);
    o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
    FaultFs fs;
    std::unique_ptr<Rig> rig;
    fs.arm({.at = at, .system_code = ENOSPC, .for_ever = false, .partial_bytes = 3});
    try {
      rig = std::make_unique<Rig>(o, false, &fs);
      rig->start_and_serve();
      if (fs.operations() < at) break;  // the fault was never reached
    } catch (const Error& e) {
      EXPECT_EQ(e.system_code, ENOSPC) << e.message;
      ++failed;
    }
    if (rig != nullptr) expect_balanced(rig->pipeline().status().ledger);
  }
  EXPECT_GT(failed, 20);
}

TEST(Control, PartsAreBusyWhileAPipelineRunsAndFreeAfterwards) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  Rig rig(o);
  EngineSession engine(rig.shared_model(), testing::for_session(o));
  Request r = request_from(o);
  r.prompt = {1, 2, 3};
  rig.pipeline().start();
  expect_error(Code::kBusy, [&] { engine.submit(r); });
  rig.serve();
  engine.submit(r);
  engine.run();
  EXPECT_EQ(engine.take_finished().size(), 1u);
}

TEST(Control, APipelineDoesNotStartWhileAnotherObjectComputes) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  {
    const ComputeLease other(rig.runtime(), "another object");
    const Error e = expect_error(Code::kBusy, [&] { rig.pipeline().start(); });
    EXPECT_TRUE(contains(e.message, "another object")) << e.message;
  }
  rig.start_and_serve();
}

TEST(Control, ATrainerStepWhileRequestsRunIsBusy) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  const auto runtime = std::make_shared<Runtime>(o);
  const auto model = LoadedModel::open(runtime, o, PlanUse::kModel);
  EngineSession engine(model, testing::for_session(o));
  TrainerSession trainer(model, testing::for_session(o));
  Request r = request_from(o);
  r.prompt = {1, 2, 3};
  r.num_samples = 4;
  engine.submit(r);
  engine.run();
  std::vector<SamplePtr> batch = engine.take_finished();
  ASSERT_EQ(batch.size(), 4u);
  for (const SamplePtr& s : batch) {
    s->scored = true;
    s->reward = low_id_reward(*s) + s->slot;
  }
  const std::vector<float> now = trainer.logprobs(batch[0]->ids, 3, batch[0]->temperature);
  EXPECT_EQ(now, batch[0]->logprobs);
  engine.submit(r);
  expect_error(Code::kBusy, [&] { trainer.step(batch); });
  engine.abort_all();
  const MetricList metrics = trainer.step(batch);
  EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
  EXPECT_EQ(trainer.publish(), 1u);
  EXPECT_NE(trainer.logprobs(batch[0]->ids, 3, 1.0f), now);
}

}  // namespace
}  // namespace rl
