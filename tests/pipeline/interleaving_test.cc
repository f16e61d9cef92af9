// Engine steps between the micro-batches of a training step, with two compute copies; and that with
// one copy they are refused. No test depends on which thread is quicker: a hook in the clock of the
// step waits, with a limit, until the other thread waits for its turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "turns.h"

namespace rl {
namespace {

using testing::low_id_reward;
using testing::tiny_options;
using testing::wait_until_true;
using Texts = std::vector<const char*>;

// An engine and a trainer of one model, whose steps have two minibatches of two micro-batches.
class Parts {
 public:
  explicit Parts(const Texts& changes = {}) : options(tiny_options(dir_)) {
    for (const char* text : {"runtime.threads=2", "model.compute_copies=2",
                             "trainer.max_tokens_per_device=32", "trainer.num_minibatches=2"}) {
      options.set_assignment(text);
    }
    for (const char* text : changes) options.set_assignment(text);
    RuntimeSeams seams;
    seams.clock = &clock_;
    seams.executor = make_thread_executor(2);
    model = LoadedModel::open(std::make_shared<Runtime>(options, std::move(seams)), options,
                              PlanUse::kTrain);
    model->runtime().tracer().set_sink(log_);
    engine = std::make_unique<EngineSession>(model, testing::for_session(options));
    trainer = another_trainer();
  }

  std::unique_ptr<TrainerSession> another_trainer() const {
    return std::make_unique<TrainerSession>(model, testing::for_session(options));
  }
  void submit(int64_t samples, int64_t tokens) {
    Request r = request_from(options);
    r.prompt = {1, 2, 3};
    r.num_samples = samples;
    r.max_new_tokens = tokens;
    engine->submit(r);
  }
  std::vector<SamplePtr> scored() {
    submit(4, 20);
    engine->run();
    std::vector<SamplePtr> batch = engine->take_finished();
    for (const SamplePtr& s : batch) {
      s->scored = true;
      s->reward = low_id_reward(*s) + s->slot;
    }
    return batch;
  }
  bool engine_step() { return engine->step() == EngineStep::kComputed; }

  // A training step, during which another thread calls turn until it returns false. As long as it
  // goes on, it waits for its turn whenever the training step computes.
  TrainedStep train_beside(const std::vector<SamplePtr>& batch, const std::function<bool()>& turn) {
    std::atomic<bool> training = false, ended = false;
    std::thread other([&] {
      wait_until_true([&] { return training.load(); });
      while (turn()) {
      }
      ended = true;
    });
    const ComputeQueue& queue = model->runtime().compute_queue();
    clock_.set_hook([&, waits = true]() mutable {
      training = true;
      waits = waits && wait_until_true([&] { return ended || queue.num_waiting() > 0; });
      EXPECT_TRUE(waits) << "the other thread does not wait for its turn";
    });
    TrainedStep step;
    std::exception_ptr failure;
    try {
      step = trainer->step(batch);
    } catch (...) {
      failure = std::current_exception();
    }
    training = true;
    other.join();
    clock_.clear_hook();
    if (failure) std::rethrow_exception(failure);
    return step;
  }
  std::string turns() const { return log_->turns(); }

 private:
  const TempDir dir_;
  testing::HookedClock clock_;
  const std::shared_ptr<testing::TurnLog> log_ = std::make_shared<testing::TurnLog>();

 public:
  OptionSet options;
  std::shared_ptr<LoadedModel> model;
  std::unique_ptr<EngineSession> engine;
  std::unique_ptr<TrainerSession> trainer;
};

void expect_same_samples(const std::vector<SamplePtr>& got,
                         const std::vector<SamplePtr>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i]->id, expected[i]->id);
    EXPECT_EQ(got[i]->ids, expected[i]->ids);
    EXPECT_EQ(got[i]->logprobs, expected[i]->logprobs);
    EXPECT_EQ(got[i]->versions, expected[i]->versions);
  }
}

TEST(Interleaving, AnEngineStepComesBetweenTwoMicroBatches) {
  Parts parts;
  const auto batch = parts.scored();
  parts.submit(3, 28);
  const size_t before = parts.turns().size();
  const TrainedStep step = parts.train_beside(batch, [&] { return parts.engine_step(); });
  const std::string turns = parts.turns().substr(before);
  EXPECT_EQ(turns.substr(0, 8), "TETETETE") << turns;
  EXPECT_EQ(turns.substr(8), std::string(turns.size() - 8, 'E'));
  EXPECT_EQ(step.get("training/logprob_max_abs_diff"), 0.0);
  EXPECT_EQ(step.version, 1u);
  const auto samples = parts.engine->take_finished();
  ASSERT_EQ(samples.size(), 3u);
  for (const SamplePtr& s : samples) {
    EXPECT_EQ(s->versions, std::vector<uint64_t>(28, 0)) << "the version that was published";
  }
}

// Forwards of a reference and the micro-batches of a critic give turns too. Neither side depends on
// them, in this step or in the next one.
TEST(Interleaving, ChangesNoBitOnEitherSide) {
  const Texts plain, reference = {"algo.kl.where=loss", "algo.kl.coef=0.5"},
                     critic = {"algo.advantage=gae", "critic.max_tokens_per_device=32"};
  for (const Texts& changes : {plain, reference, critic}) {
    SCOPED_TRACE(changes.empty() ? "plain" : changes.front());
    Parts apart(changes), together(changes);
    const auto batch = apart.scored(), same = together.scored();
    expect_same_samples(same, batch);
    apart.submit(3, 28);
    apart.engine->run();
    const TrainedStep expected = apart.trainer->step(batch);
    together.submit(3, 28);
    const size_t before = together.turns().size();
    const TrainedStep step = together.train_beside(same, [&] { return together.engine_step(); });
    const std::string turns = together.turns().substr(before);
    EXPECT_EQ(turns.find("TT"), std::string::npos) << turns;
    EXPECT_EQ(turns.front(), changes.empty() ? 'T' : 'E') << turns;
    EXPECT_EQ(std::ranges::count(turns, 'T') > 4, changes == critic) << turns;
    EXPECT_EQ(step.without_times().to_json(), expected.without_times().to_json());
    EXPECT_EQ(together.model->weight_digest(), apart.model->weight_digest());
    expect_same_samples(together.engine->take_finished(), apart.engine->take_finished());
    for (Parts* parts : {&apart, &together}) {
      EXPECT_EQ(parts->trainer->publish(), 1u);
      parts->trainer->step(parts->scored());
    }
    EXPECT_EQ(together.model->weight_digest(), apart.model->weight_digest());
  }
}

// After the first of two optimizer steps.
TEST(Interleaving, AStepThatFailsHandsItsTurnOn) {
  const Texts custom = {"algo.policy_loss=custom"};
  Parts apart(custom), parts(custom);
  apart.scored();
  apart.submit(3, 28);
  apart.engine->run();
  const auto batch = parts.scored();
  parts.submit(3, 28);
  int calls = 0;
  parts.trainer->set_custom_loss(
      [&](const AlgoArrays&, std::span<const double> weights, std::span<double> gradient) {
        if (++calls == 2) throw Error(Code::kIo, "the host's loss");
        std::ranges::copy(weights, gradient.begin());
        return 1.0;
      });
  expect_error(Code::kIo, [&] { parts.train_beside(batch, [&] { return parts.engine_step(); }); });
  EXPECT_TRUE(parts.model->half_trained());
  expect_same_samples(parts.engine->take_finished(), apart.engine->take_finished());
  EXPECT_EQ(parts.trainer->publish(), 1u);
  parts.submit(1, 4);
  parts.engine->run();
  EXPECT_EQ(parts.engine->take_finished().at(0)->versions, std::vector<uint64_t>(4, 1));
}

// By a third thread, while an engine step waits for its turn or just before.
TEST(Interleaving, RequestsCanBeAbortedMeanwhile) {
  Parts apart, parts;
  apart.trainer->step(apart.scored());
  const auto batch = parts.scored();
  parts.submit(3, 28);
  std::atomic<int> steps = 0;
  std::atomic<bool> aborted = false;
  std::jthread aborts([&] {
    wait_until_true([&] { return steps >= 2; });
    parts.engine->abort_all();
    aborted = true;
  });
  parts.train_beside(batch, [&] {
    if (++steps > 2) wait_until_true([&] { return aborted.load(); });
    return parts.engine_step();
  });
  const auto samples = parts.engine->take_finished();
  ASSERT_EQ(samples.size(), 3u);
  for (const SamplePtr& s : samples) EXPECT_EQ(s->finish, FinishReason::kAborted);
  EXPECT_EQ(parts.model->weight_digest(), apart.model->weight_digest());
}

// What reads or changes the weights that are being trained gets no turn between micro-batches.
TEST(Interleaving, OnlyEngineStepsComeBetween) {
  Parts parts;
  const auto batch = parts.scored();
  const auto other = parts.another_trainer();
  const auto expect_busy = [](const char* why, auto&& call) {
    const Error e = expect_error(Code::kBusy, call);
    EXPECT_TRUE(contains(e.message, why)) << e.message;
  };
  const TrainedStep step = parts.train_beside(batch, [&] {
    expect_busy("busy with a training step", [&] { other->logprobs(batch[0]->ids, 3, 1); });
    expect_busy("busy with a training step", [&] { parts.engine->sleep(1); });
    expect_busy("busy with a training step", [&] { parts.another_trainer(); });
    expect_busy("being trained", [&] { other->publish(); });
    expect_busy("being trained", [&] { parts.model->weight_digest(); });
    expect_busy("busy with a training step", [&] { other->step(batch); });
    return false;
  });
  EXPECT_EQ(step.version, 1u);
  EXPECT_EQ(parts.trainer->publish(), 1u);
}

// What gets no turn between micro-batches comes after the step if the runtime lets it wait.
TEST(Interleaving, OthersWaitForTheEndOfTheStep) {
  for (const char* copies : {"model.compute_copies=1", "model.compute_copies=2"}) {
    SCOPED_TRACE(copies);
    Parts parts({copies, "runtime.busy_timeout_ns=1h"});
    const auto batch = parts.scored();
    const auto other = parts.another_trainer();
    const auto before = other->logprobs(batch[0]->ids, 3, 1);
    std::vector<float> beside;
    parts.train_beside(batch, [&] {
      beside = other->logprobs(batch[0]->ids, 3, 1);
      return false;
    });
    EXPECT_NE(beside, before);
    EXPECT_EQ(beside, other->logprobs(batch[0]->ids, 3, 1));
  }
}

// A second training step would need weights that the first one writes, and the first one its turns.
TEST(Interleaving, TrainingStepsOfAModelFollowOneAnother) {
  Parts apart, parts({"runtime.busy_timeout_ns=1h"});
  const auto same = apart.scored(), batch = parts.scored();
  apart.trainer->step(same);
  apart.another_trainer()->step(same);
  const auto other = parts.another_trainer();
  TrainedStep second;
  const TrainedStep first = parts.train_beside(batch, [&] {
    second = other->step(batch);
    return false;
  });
  EXPECT_EQ(first.version, 1u);
  EXPECT_EQ(second.version, 1u) << "neither is published";
  EXPECT_EQ(parts.model->weight_digest(), apart.model->weight_digest());
}

// A call that waits to compute holds nothing that others need.
TEST(Interleaving, WhileACallWaitsOthersUseItsObject) {
  Parts parts({"model.compute_copies=1", "runtime.busy_timeout_ns=1h"});
  const auto batch = parts.scored();
  std::optional<ComputeLease> own(std::in_place, parts.model->runtime(), "the test");
  const ComputeQueue& queue = parts.model->runtime().compute_queue();
  parts.submit(2, 8);
  EngineStep end = EngineStep::kComputed;
  std::jthread run([&] { end = parts.engine->run(); });
  std::jthread forward([&] { parts.trainer->logprobs(batch[0]->ids, 3, 1); });
  EXPECT_TRUE(wait_until_true([&] { return queue.num_waiting() == 2; }));
  parts.submit(1, 8);
  EXPECT_EQ(parts.engine->stats().waiting, 3);
  EXPECT_EQ(parts.trainer->trained_version(), 0u);
  parts.trainer->set_custom_loss({});
  EXPECT_EQ(parts.engine->drain(0), EngineStep::kIdle);
  parts.engine->pause();  // which ends the wait of the run
  run.join();
  EXPECT_EQ(end, EngineStep::kPaused);
  EXPECT_EQ(queue.num_waiting(), 1);
  own.reset();
  forward.join();
  EXPECT_EQ(parts.engine->stats().generated_tokens, 4 * 20);
}

TEST(Interleaving, AnEngineEndsWhileItWaits) {
  Parts parts({"runtime.busy_timeout_ns=1h"});
  const ComputeLease own(parts.model->runtime(), "the test");
  const ComputeQueue& queue = parts.model->runtime().compute_queue();
  parts.submit(2, 8);
  EngineStep end = EngineStep::kComputed;
  std::jthread run([&] { end = parts.engine->run(); });
  EXPECT_TRUE(wait_until_true([&] { return queue.num_waiting() == 1; }));
  parts.engine->close();
  run.join();
  EXPECT_EQ(end, EngineStep::kIdle);
  EXPECT_EQ(parts.engine->stats().generated_tokens, 0);
}

// The timeout of a drain is not an error, and ends its wait if it is the shorter one.
TEST(Interleaving, ADrainWaitsNoLongerThanItsTimeout) {
  Parts parts({"runtime.busy_timeout_ns=1h"}), refused;
  for (Parts* each : {&parts, &refused}) {
    each->submit(1, 8);
    EXPECT_TRUE(each->engine_step());
  }
  const ComputeLease own(parts.model->runtime(), "the test");
  EXPECT_EQ(parts.engine->drain(1'000'000), EngineStep::kTimedOut);
  EXPECT_EQ(parts.engine->stats().started, 1);
  const ComputeLease other(refused.model->runtime(), "the test");
  const Error e = expect_error(Code::kBusy, [&] { refused.engine->drain(-1); });
  EXPECT_TRUE(contains(e.message, "busy with the test")) << e.message;
}

TEST(Interleaving, WithOneCopyAnEngineIsRefused) {
  Parts apart({"model.compute_copies=1"}), parts({"model.compute_copies=1"});
  apart.trainer->step(apart.scored());
  const auto batch = parts.scored();
  parts.train_beside(batch, [&] {
    const Error step = expect_error(Code::kBusy, [&] { parts.engine_step(); });
    EXPECT_TRUE(contains(step.message, "an engine step cannot compute now")) << step.message;
    EXPECT_TRUE(contains(step.message, "busy with a training step")) << step.message;
    const Error request = expect_error(Code::kBusy, [&] { parts.submit(1, 4); });
    EXPECT_TRUE(contains(request.message, "being trained")) << request.message;
    return false;
  });
  EXPECT_EQ(parts.model->version(), 1u);
  EXPECT_EQ(parts.model->weight_digest(), apart.model->weight_digest());
}

}  // namespace
}  // namespace rl
