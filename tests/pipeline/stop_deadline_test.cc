// A stop with a deadline that passes while a step is training: before its first optimizer step the
// step is undone, between two it leaves the model half-trained, and otherwise it is finished.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::kSecond;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

// Two minibatches a step, of several micro-batches each.
OptionSet stopped_options(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"algo.advantage=custom", "algo.policy_loss=custom", "trainer.num_minibatches=2",
        "trainer.max_tokens_per_device=48", "pipeline.total_steps=4"}) {
    o.set_assignment(text);
  }
  return o;
}

// The host's loss is called at the start of each minibatch, on the thread of the loop: calls 7 and
// 8 are those of step 4. during(call) may change the loss.
class Host {
 public:
  explicit Host(Pipeline& pipeline) {
    pipeline.set_custom_advantage([](const AlgoArrays& in, std::span<double> advantages) {
      size_t t = 0;
      for (size_t i = 0; i < in.lengths.size(); ++i) {
        for (int32_t g = 0; g < in.lengths[i]; ++g) advantages[t++] = in.rewards[i];
      }
    });
    pipeline.set_custom_loss(
        [this](const AlgoArrays& in, std::span<const double> weights, std::span<double> gradient) {
          double loss = 0;
          for (size_t t = 0; t < weights.size(); ++t) {
            const double ratio = std::exp(double{in.logprobs[t]} - in.old_logprobs[t]);
            loss -= weights[t] * ratio * in.advantages[t];
            gradient[t] -= weights[t] * ratio * in.advantages[t];
          }
          during(++calls, loss);
          return loss;
        });
  }

  std::function<void(int call, double& loss)> during = [](int, double&) {};
  int calls = 0;
};

// A run without a stop.
struct WholeRun {
  explicit WholeRun(const OptionSet& options) : rig(options), host(rig.pipeline()) {
    log = rig.start_and_serve();
  }
  Rig rig;
  Host host;
  RunLog log;
};

// Continues from the newest checkpoint; its last step and weights must equal those of the whole
// run.
void expect_resumed(OptionSet options, WholeRun& whole, uint64_t first_step) {
  options.set_string("checkpoint.resume", "auto");
  Rig rig(options);
  Host host(rig.pipeline());
  EXPECT_EQ(rig.pipeline().status().step, first_step);
  const RunLog rest = rig.start_and_serve();
  ASSERT_EQ(rest.steps.size(), 4 - first_step);
  EXPECT_EQ(rest.steps.back().without_times().to_json(),
            whole.log.steps.back().without_times().to_json());
  EXPECT_EQ(rig.model().weight_digest(), whole.rig.model().weight_digest());
}

void expect_shut_down(Pipeline& pipeline, const RunLog& log) {
  const LedgerCounts c = pipeline.status().ledger;
  EXPECT_EQ(c.attempts_in_flight, 0);
  EXPECT_EQ(c.prompts_drawn, c.prompts_trained + c.dropped());
  EXPECT_EQ(c.attempts_discarded[static_cast<size_t>(DropReason::kShutdown)], 16);
  ASSERT_EQ(log.dropped.size(), 4u);
  for (const auto& event : log.dropped) EXPECT_EQ(event->reason, DropReason::kShutdown);
}

TEST(StopDeadline, BeforeTheFirstOptimizerStepTheStepIsUndone) {
  const TempDir dir;
  OptionSet o = stopped_options(dir);
  WholeRun whole(o);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_string("buffer.record_dir", dir.file("batches"));
  uint64_t digest = 0;
  {
    Rig rig(o);
    Host host(rig.pipeline());
    host.during = [&](int call, double&) {
      if (call == 7) {
        EXPECT_FALSE(rig.pipeline().stop(1));
      }
    };
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.steps.size(), 3u);
    EXPECT_EQ(host.calls, 7);
    expect_shut_down(rig.pipeline(), log);
    EXPECT_FALSE(rig.model().half_trained());
    EXPECT_EQ(rig.model().version(), 3u);
    digest = rig.model().weight_digest();
    EXPECT_TRUE(contains(rig.pipeline().checkpoint(0), "step_000003"));
    EXPECT_TRUE(real_fs().exists(dir.file("batches/step_000003.rlbuf")));
    EXPECT_FALSE(real_fs().exists(dir.file("batches/step_000004.rlbuf")));
    EXPECT_TRUE(real_fs().exists(dir.file("batches/step_000004.rlbuf.abandoned")));
  }
  OptionSet three = stopped_options(dir);
  three.set_i64("pipeline.total_steps", 3);
  EXPECT_EQ(digest, WholeRun(three).rig.model().weight_digest());
  expect_resumed(o, whole, 3);
}

// Skipped optimizer steps are counted in checkpoints.
TEST(StopDeadline, AnUndoneStepForgetsItsSkippedOptimizerSteps) {
  const TempDir dir;
  OptionSet o = stopped_options(dir);
  WholeRun whole(o);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  std::string manifest;
  {
    Rig rig(o);
    Host host(rig.pipeline());
    host.during = [&](int call, double& loss) {
      if (call == 7) loss = std::numeric_limits<double>::quiet_NaN();
      if (call == 8) {
        EXPECT_FALSE(rig.pipeline().stop(1));
      }
    };
    EXPECT_EQ(rig.start_and_serve().steps.size(), 3u);
    EXPECT_EQ(host.calls, 8);
    EXPECT_FALSE(rig.model().half_trained());
    manifest = read_text_file(real_fs(), rig.pipeline().checkpoint(0) + "/manifest.json", 1 << 20);
  }
  std::erase_if(manifest, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_TRUE(contains(manifest, "\"skipped_steps\":0"));
  expect_resumed(o, whole, 3);
}

// Serves a run that is stopped between the two optimizer steps of step 4.
void stop_between_optimizer_steps(Rig& rig) {
  Host host(rig.pipeline());
  host.during = [&](int call, double&) {
    if (call == 8) {
      EXPECT_FALSE(rig.pipeline().stop(1));
    }
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 3u);
  expect_shut_down(rig.pipeline(), log);
}

TEST(StopDeadline, BetweenTwoOptimizerStepsTheModelIsHalfTrained) {
  const TempDir dir;
  OptionSet o = stopped_options(dir);
  WholeRun whole(o);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 2);
  {
    Rig rig(o);
    stop_between_optimizer_steps(rig);
    EXPECT_TRUE(rig.model().half_trained());
    EXPECT_EQ(rig.model().version(), 3u);
    const Error e =
        expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().checkpoint(kSecond); });
    EXPECT_TRUE(contains(e.message, "half-trained"));
    EXPECT_TRUE(contains(e.message, "after 1 of 2 optimizer steps"));
    // That gives the weights a version, but they are of no whole step.
    TrainerSession(rig.shared_model(), testing::for_session(stopped_options(dir))).publish();
    EXPECT_FALSE(rig.model().half_trained());
    const Error published =
        expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().checkpoint(kSecond); });
    EXPECT_TRUE(contains(published.message, "within the update of step 4"));
  }
  expect_resumed(o, whole, 2);
}

TEST(StopDeadline, BetweenTwoOptimizerStepsAStepWithABackupIsUndone) {
  const TempDir dir;
  OptionSet o = stopped_options(dir);
  WholeRun whole(o);
  o.set_bool("trainer.weights_backup", true);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  {
    Rig rig(o);
    stop_between_optimizer_steps(rig);
    EXPECT_FALSE(rig.model().half_trained());
    EXPECT_EQ(rig.model().version(), 3u);
    EXPECT_TRUE(contains(rig.pipeline().checkpoint(0), "step_000003"));
  }
  expect_resumed(o, whole, 3);
}

TEST(StopDeadline, AfterTheLastOptimizerStepTheStepIsFinished) {
  const TempDir dir;
  OptionSet o = stopped_options(dir);
  o.set_assignment("trainer.max_tokens_per_device=256");  // one micro-batch a minibatch
  Rig rig(o);
  Host host(rig.pipeline());
  host.during = [&](int call, double&) {
    if (call == 6) {
      EXPECT_FALSE(rig.pipeline().stop(1));
    }
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 3u);
  EXPECT_EQ(host.calls, 6);
  EXPECT_FALSE(rig.model().half_trained());
  EXPECT_EQ(rig.model().version(), 3u);
}

// 0 only makes the request, and a negative timeout has no end.
TEST(StopDeadline, AStopWithoutADeadlineFinishesTheStep) {
  const TempDir dir;
  for (const bool waits : {false, true}) {
    SCOPED_TRACE(waits);
    Rig rig(stopped_options(dir));
    Host host(rig.pipeline());
    std::jthread stopper;
    host.during = [&](int call, double&) {
      if (call != 5) return;
      EXPECT_FALSE(rig.pipeline().stop(0));
      if (waits) stopper = std::jthread([&] { EXPECT_TRUE(rig.pipeline().stop(-1)); });
    };
    EXPECT_EQ(rig.start_and_serve().steps.size(), 3u);
    EXPECT_EQ(host.calls, 6);
    EXPECT_FALSE(rig.model().half_trained());
  }
}

TEST(StopDeadline, AStepThatEndsInTimeIsFinished) {
  const TempDir dir;
  Rig rig(stopped_options(dir));
  Host host(rig.pipeline());
  std::jthread stopper;
  host.during = [&](int call, double&) {
    if (call != 5) return;
    EXPECT_FALSE(rig.pipeline().stop(0));  // so that no further step begins
    stopper = std::jthread([&] { EXPECT_TRUE(rig.pipeline().stop(60 * kSecond)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 3u);
  EXPECT_EQ(host.calls, 6);
}

TEST(StopDeadline, TheEarliestDeadlineHolds) {
  const TempDir dir;
  Rig rig(stopped_options(dir));
  Host host(rig.pipeline());
  std::jthread stopper;
  host.during = [&](int call, double&) {
    if (call != 5) return;
    EXPECT_FALSE(rig.pipeline().stop(1));
    stopper = std::jthread([&] { EXPECT_TRUE(rig.pipeline().stop(60 * kSecond)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 2u);
  EXPECT_EQ(host.calls, 5);
}

}  // namespace
}  // namespace rl
