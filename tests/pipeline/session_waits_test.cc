// Calls of engines and trainers that wait for others: what they wait for, how long, and whom they
// hold up.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "turns.h"

namespace rl {
namespace {

using std::chrono::milliseconds;
using testing::for_session;
using testing::tiny_options;
using testing::wait_until_true;

// Long enough to see who waits; a call that waits for another one fails after it.
constexpr const char* kPatience = "5s";

class SessionWaits : public ::testing::Test {
 protected:
  void open(const std::string& more = "engine.thread=false") {
    options_ = for_session(tiny_options(dir_));
    options_.set_text("runtime.busy_timeout_ns", kPatience);
    options_.set_assignment(more);
    model_ = LoadedModel::open(std::make_shared<Runtime>(options_), options_, PlanUse::kGenerate);
    engine_ = std::make_unique<EngineSession>(model_, options_);
  }
  void submit() {
    Request r = request_from(options_);
    r.prompt = {1, 2, 3};
    r.max_new_tokens = 4;
    engine_->submit(r);
  }
  // Starts a call that has to wait.
  template <typename F>
  std::future<void> started(F call) {
    std::future<void> result = std::async(std::launch::async, call);
    EXPECT_EQ(result.wait_for(milliseconds(100)), std::future_status::timeout);
    return result;
  }

  const TempDir dir_;
  OptionSet options_;
  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<EngineSession> engine_;
};

TEST_F(SessionWaits, ASubmitThatWaitsForWeightsInTrainingHoldsNobodyUp) {
  open();
  std::optional<LoadedModel::WriteLease> training(std::in_place, *model_, 0);
  std::future<void> submitted = started([&] { submit(); });
  EXPECT_EQ(engine_->stats().waiting, 0);
  EXPECT_TRUE(engine_->take_finished().empty());
  engine_->pause();
  training.reset();
  EXPECT_NO_THROW(submitted.get());
  EXPECT_EQ(engine_->stats().waiting, 1);
  engine_->unpause();
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 1u);
}

TEST_F(SessionWaits, AnUnpauseThatWaitsForWeightsInTrainingHoldsNobodyUp) {
  open();
  submit();
  EXPECT_EQ(engine_->drain(0), EngineStep::kIdle) << "nothing has started";
  std::optional<LoadedModel::WriteLease> training(std::in_place, *model_, 0);
  std::future<void> unpaused = started([&] { engine_->unpause(); });
  EXPECT_EQ(engine_->stats().waiting, 1);
  submit();
  training.reset();
  EXPECT_NO_THROW(unpaused.get());
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 2u);
}

TEST_F(SessionWaits, ADestroyedEngineRefusesTheSubmitThatWaited) {
  open();
  std::optional<LoadedModel::WriteLease> training(std::in_place, *model_, 0);
  std::future<void> submitted = started([&] { submit(); });
  engine_->close();
  training.reset();
  EXPECT_THROW(submitted.get(), Error);
}

TEST_F(SessionWaits, ADrainEndsInTimeBehindAStepThatWaitsToCompute) {
  open();
  submit();
  EXPECT_EQ(engine_->step(), EngineStep::kComputed);
  std::optional<ComputeLease> other(std::in_place, model_->runtime(), "something else");
  std::future<void> stepped = started([&] { engine_->step(); });
  const ComputeQueue& queue = model_->runtime().compute_queue();
  EXPECT_TRUE(wait_until_true([&] { return queue.num_waiting() == 1; }));
  EXPECT_EQ(engine_->drain(1'000'000), EngineStep::kTimedOut);
  EXPECT_EQ(queue.num_waiting(), 1) << "the step still waits";
  other.reset();
  EXPECT_NO_THROW(stepped.get());
  EXPECT_EQ(engine_->drain(-1), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 1u);
}

// With one compute copy the engine would go on with keys and values of other weights.
TEST_F(SessionWaits, WeightsDoNotChangeUnderRequestsThatCameDuringTheWait) {
  open();
  std::promise<void> saved;
  std::future<void> save =
      started([&] { model_->with_steady_weights([&] { saved.get_future().wait(); }); });
  std::future<void> changed =
      started([&] { const LoadedModel::WriteLease change(*model_, 5 * testing::kSecond); });
  submit();
  saved.set_value();
  save.get();
  try {
    changed.get();
    ADD_FAILURE() << "the weights changed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kBusy);
    EXPECT_EQ(e.key, "model.compute_copies");
  }
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  const LoadedModel::WriteLease change(*model_, 0);
}

TEST_F(SessionWaits, APublicationThatWaitsForAnotherTrainerHoldsNobodyUp) {
  open("model.compute_copies=2");
  TrainerSession trainer(model_, options_);
  std::optional<LoadedModel::WriteLease> training(std::in_place, *model_, 0);
  std::future<void> published = started([&] { trainer.publish(); });
  EXPECT_EQ(trainer.trained_version(), 0u);
  training.reset();
  EXPECT_NO_THROW(published.get());
}

// The thread waits without a limit for what computes, and nothing is lost between its tries.
TEST_F(SessionWaits, AnEngineWithAThreadGoesOnWhenWhatComputesEnds) {
  open("engine.thread=true");
  options_.set_text("runtime.busy_timeout_ns", "0");
  model_ = LoadedModel::open(std::make_shared<Runtime>(options_), options_, PlanUse::kGenerate);
  engine_ = std::make_unique<EngineSession>(model_, options_);
  for (int i = 0; i < 20; ++i) {
    {
      const ComputeLease other(model_->runtime(), "something else");
      submit();
      std::this_thread::sleep_for(milliseconds(i % 3));
    }
    EXPECT_EQ(engine_->run(), EngineStep::kIdle);
    EXPECT_EQ(engine_->take_finished().size(), 1u);
  }
  const ComputeLease other(model_->runtime(), "something else");
  submit();
  std::this_thread::sleep_for(milliseconds(5));
  engine_->pause();
  EXPECT_EQ(engine_->run(), EngineStep::kPaused);
  engine_->unpause();
  std::this_thread::sleep_for(milliseconds(5));
  const auto begin = std::chrono::steady_clock::now();
  engine_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(900)) << "its end is a change";
}

TEST(FifoMutex, WhoGivesUpLeavesItsPlace) {
  FifoMutex mutex;
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock_for(0));
  EXPECT_FALSE(mutex.try_lock_for(1'000'000));
  std::future<void> next = std::async(std::launch::async, [&] {
    mutex.lock();
    mutex.unlock();
  });
  mutex.unlock();
  next.get();
  EXPECT_TRUE(mutex.try_lock_for(0));
  EXPECT_FALSE(mutex.try_lock_for(0));
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_for(-1));
  mutex.unlock();
}

}  // namespace
}  // namespace rl
