// One update step by step: log-probs that samples lack, the coefficient in the trainer's options,
// where an update can be given up, the critic's warm-up, and what a teacher adds.
#include "pipeline/update/policy_update.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "run_rig.h"
#include "support/expect_error.h"
#include "support/fake_clock.h"

namespace rl {
namespace {

using testing::for_session;
using testing::tiny_options;
using Texts = std::vector<std::string>;

// A model and an update on it, under the leases of a step.
class Bench {
 public:
  explicit Bench(const Texts& texts = {}, RuntimeSeams seams = {})
      : options(for_session(tiny_options(dir_))) {
    for (const std::string& text : texts) options.set_assignment(text);
    const auto runtime = std::make_shared<Runtime>(options, std::move(seams));
    model = LoadedModel::open(runtime, options, PlanUse::kTrain);
    plan = model->plan_session(options, PlanUse::kTrain);
    arena_ = Arena("workspace", plan.train_workspace_bytes, Touch::kNow, nullptr);
    update = std::make_unique<PolicyUpdate>(*model, options, plan, arena_.data());
  }
  std::byte* workspace() { return arena_.data(); }
  // Under the trained weights.
  std::vector<float> logprobs(const Sample& s) {
    std::vector<float> out(static_cast<size_t>(s.generated()));
    const Sample* samples[] = {&s};
    const std::span<float> outs[] = {out};
    update->trainer().logprobs(samples, outs);
    return out;
  }
  // Runs micro-batches until so many optimizer steps are applied.
  void run_to(int64_t optimizer_steps) {
    while (update->trainer().counters().optimizer_steps < optimizer_steps) {
      ASSERT_TRUE(update->next());
    }
  }

 private:
  const TempDir dir_;
  Arena arena_;

 public:
  OptionSet options;
  std::shared_ptr<LoadedModel> model;
  MemoryPlan plan;
  std::unique_ptr<PolicyUpdate> update;
};

// A prompt of two tokens, three of a response, of which the second carries no loss.
SamplePtr foreign_sample(uint64_t i) {
  auto s = std::make_shared<Sample>();
  s->id = i + 1;
  s->ordinal = i / 4;
  s->slot = static_cast<uint32_t>(i % 4);
  const auto n = static_cast<int32_t>(i);
  s->ids = {4, 5 + n / 4, 60 + 9 * n, 61 + n, 7};
  s->prompt_tokens = 2;
  s->versions.assign(3, kUnknownVersion);
  s->loss_mask = {1, 0, 1};
  s->reward = static_cast<double>(i % 3);
  s->scored = true;
  return s;
}

std::vector<SamplePtr> foreign_batch() {
  std::vector<SamplePtr> batch;
  for (uint64_t i = 0; i < 8; ++i) batch.push_back(foreign_sample(i));
  return batch;
}

TEST(MissingLogprobs, AreThoseOfTheTrainedWeights) {
  Bench b;
  std::vector<SamplePtr> samples = {foreign_sample(0), foreign_sample(1), foreign_sample(2)};
  samples[0]->logprobs = {-1, -2, -3};
  samples[1]->mixed_kv = {0, 1, 0};
  samples[2]->loss_mask = {1, 1, 0};
  const CompletedBatch c = complete_logprobs(samples, b.update->trainer(), real_clock());
  ASSERT_EQ(c.samples.size(), 3u);
  EXPECT_EQ(c.samples[0], samples[0]) << "it has log-probs";
  EXPECT_EQ(c.num_completed, 2);
  EXPECT_EQ(c.rows, 4 + 3) << "up to the token before the last one with loss";
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Sample &s = *c.samples[i], &given = *samples[i];
    EXPECT_NE(c.samples[i], samples[i]);
    EXPECT_EQ(s.id, given.id);
    EXPECT_EQ(s.logprobs, b.logprobs(given));
    EXPECT_EQ(s.logprobs_sampled, s.logprobs);
    EXPECT_EQ(s.versions, std::vector<uint64_t>(3, 0));
    EXPECT_TRUE(s.mixed_kv.empty());
    EXPECT_TRUE(given.logprobs.empty());
    EXPECT_EQ(given.versions, std::vector<uint64_t>(3, kUnknownVersion));
  }
  EXPECT_EQ(samples[1]->mixed_kv, (std::vector<uint8_t>{0, 1, 0}));
}

TEST(MissingLogprobs, AreCountedInTheStep) {
  CompletedBatch c;
  c.num_completed = 3;
  c.rows = 40;
  c.ns = 7;
  TrainMetrics m;
  m.samples_without_logprobs = 1;
  m.proximal_samples = 2;
  m.rows_not_scored = 100;
  m.proximal_ns = 10;
  c.count(m);
  EXPECT_EQ(m.samples_without_logprobs, 4);
  EXPECT_EQ(m.proximal_samples, 5);
  EXPECT_EQ(m.rows_not_scored, 60);
  EXPECT_EQ(m.proximal_ns, 17);
  PreparedBatch prepared;
  prepared.completed = c;
  prepared.reference_ns = 5;
  m.reference_ns = 2;
  prepared.count(m);
  EXPECT_EQ(m.reference_ns, 7);
  EXPECT_EQ(m.samples_without_logprobs, 7);
}

TEST(PolicyUpdate, TheTrainerHasTheCoefficientThatTheControllerReached) {
  const Texts adaptive = {"algo.kl.coef=0.5", "algo.kl.controller=adaptive", "algo.kl.target=0.25"};
  Bench loss({adaptive[0], adaptive[1], adaptive[2], "algo.kl.where=loss"});
  const auto coefficient = [](Bench& b) { return b.update->trainer().options().kl_coef; };
  EXPECT_EQ(coefficient(loss), 0.5);
  EXPECT_EQ(loss.update->adaptive_kl(), 0.5);
  loss.update->restore_kl(0.125);
  EXPECT_EQ(coefficient(loss), 0.125);
  loss.options.set_f64("optimizer.lr", 0.25);
  loss.update->set_options(loss.options);
  EXPECT_EQ(coefficient(loss), 0.125);
  EXPECT_EQ(loss.update->trainer().options().schedule.lr, 0.25);
  loss.options.set_f64("algo.kl.coef", 2);
  loss.update->set_options(loss.options);
  EXPECT_EQ(coefficient(loss), 2);
  Bench reward({adaptive[0], adaptive[1], adaptive[2], "algo.kl.where=reward"});
  reward.update->restore_kl(0.125);
  EXPECT_EQ(reward.update->adaptive_kl(), 0.125);
  EXPECT_EQ(coefficient(reward), 0.5) << "the loss has no such term";
  EXPECT_FALSE(Bench({"algo.kl.where=loss", "algo.kl.coef=0.5"}).update->adaptive_kl());
}

TEST(PolicyUpdate, OptionsThatChangeReachThePreparation) {
  Bench b;
  EXPECT_EQ(b.update->advantage_options().repetition_limit, 1);
  b.options.set_f64("pipeline.repetition_filter", 0.5);
  b.update->set_options(b.options);
  EXPECT_EQ(b.update->advantage_options().repetition_limit, 0.5);
}

TEST(PolicyUpdate, ItEndsAfterItsLastMicroBatch) {
  Bench b({"trainer.num_minibatches=2"});
  const ComputeLease compute(b.model->runtime(), "a test");
  const LoadedModel::WriteLease write(*b.model, 0);
  const std::vector<SamplePtr> batch = foreign_batch();
  const ScoredLists lists(batch);
  b.update->begin(lists.view(), 0);
  EXPECT_TRUE(b.update->has_steps_left());
  b.run_to(2);
  EXPECT_FALSE(b.update->has_steps_left());
  EXPECT_FALSE(b.update->next());
  const UpdateResult result = b.update->finish();
  EXPECT_EQ(result.num_samples, 8);
  EXPECT_TRUE(result.applied);
  EXPECT_EQ(result.trained.optimizer_steps, 2);
  EXPECT_EQ(result.trained.samples_without_logprobs, 8);
  EXPECT_EQ(result.metrics.get("critic/score/mean"), 7.0 / 8);
  EXPECT_EQ(b.model->version(), 1u);
  EXPECT_FALSE(b.model->half_trained());
}

TEST(PolicyUpdate, AbandonedBeforeAStepItHasChangedNothing) {
  Bench b({"trainer.num_minibatches=2"});
  const ComputeLease compute(b.model->runtime(), "a test");
  const LoadedModel::WriteLease write(*b.model, 0);
  const std::vector<SamplePtr> batch = foreign_batch();
  const ScoredLists lists(batch);
  const uint64_t release = b.model->model().published().release();
  b.update->begin(lists.view(), 0);
  EXPECT_TRUE(b.update->abandon());
  EXPECT_FALSE(b.model->half_trained());
  b.update->begin(lists.view(), 0);
  b.run_to(1);
  EXPECT_TRUE(b.update->has_steps_left());
  EXPECT_FALSE(b.update->abandon());
  EXPECT_TRUE(b.model->half_trained());
  EXPECT_EQ(b.model->model().published().release(), release);
  const Error e = expect_error(Code::kFailedPrecondition,
                               [&] { b.model->require_whole(LoadedModel::Weights::kTrained); });
  EXPECT_TRUE(contains(e.message, "failed after 1 of 2 optimizer steps"));
}

// One of a single optimizer step too, whose publication can fail, and of the critic alone.
TEST(PolicyUpdate, EveryUpdateHasACopyOfTheWeights) {
  const auto copies = [](Texts texts) {
    texts.push_back("trainer.weights_backup=true");
    Bench b(texts);
    const ComputeLease compute(b.model->runtime(), "a test");
    const LoadedModel::WriteLease write(*b.model, 0);
    const std::vector<SamplePtr> batch = foreign_batch();
    const ScoredLists lists(batch);
    b.update->begin(lists.view(), 0);
    const bool copied = b.update->has_copy();
    while (b.update->next()) {
    }
    b.update->finish();
    EXPECT_FALSE(b.update->has_copy());
    return copied;
  };
  EXPECT_TRUE(copies({}));
  EXPECT_TRUE(copies({"trainer.num_minibatches=2"}));
  EXPECT_TRUE(copies({"algo.advantage=gae"}));
  EXPECT_TRUE(copies({"algo.advantage=gae", "algo.critic_warmup_steps=1"})) << "the critic's steps";
}

TEST(PolicyUpdate, WhileTheCriticWarmsUpThePolicyStays) {
  Bench b({"algo.advantage=gae", "algo.critic_warmup_steps=1", "critic.optimizer.lr=1e-2"});
  EXPECT_GT(b.update->memory().size(), b.update->trainer().memory().size());
  const ComputeLease compute(b.model->runtime(), "a test");
  const LoadedModel::WriteLease write(*b.model, 0);
  const std::vector<SamplePtr> batch = foreign_batch();
  const ScoredLists lists(batch);
  b.update->begin(lists.view(), 0);
  EXPECT_FALSE(b.update->has_steps_left());
  EXPECT_TRUE(b.update->abandon());
  b.update->begin(lists.view(), 0);
  EXPECT_FALSE(b.update->next());
  const UpdateResult warm = b.update->finish();
  EXPECT_TRUE(warm.applied) << "the critic has learned";
  EXPECT_EQ(warm.trained.optimizer_steps, 0);
  EXPECT_EQ(warm.num_samples, 8);
  EXPECT_EQ(warm.metrics.get("critic/optimizer_steps"), 1.0);
  EXPECT_EQ(b.model->version(), 0u);
  b.update->begin(lists.view(), 1);
  EXPECT_TRUE(b.update->has_steps_left());
  EXPECT_TRUE(b.update->next());
}

// A second passes between two looks at it.
class TickingClock final : public Clock {
 public:
  int64_t now_ns() const override { return ++ticks_ * testing::kSecond; }
  int64_t unix_ns() const override { return 0; }

 private:
  mutable std::atomic<int64_t> ticks_{0};
};

TEST(PolicyUpdate, TimesAreSecondsOfTheRuntimesClock) {
  const TickingClock clock;
  const auto began = [&](const Texts& texts) {
    RuntimeSeams seams;
    seams.clock = &clock;
    Bench b(texts, std::move(seams));
    const ComputeLease compute(b.model->runtime(), "a test");
    const LoadedModel::WriteLease write(*b.model, 0);
    const std::vector<SamplePtr> batch = foreign_batch();
    const ScoredLists lists(batch);
    b.update->begin(lists.view(), 0);
    while (b.update->next()) {
    }
    return b.update->finish();
  };
  const auto is_seconds = [](std::optional<double> v) {
    ASSERT_TRUE(v);
    EXPECT_GE(*v, 0.999);
    EXPECT_LT(*v, 1000);
  };
  const UpdateResult gae = began({"algo.advantage=gae", "algo.kl.where=reward"});
  EXPECT_NEAR(gae.metrics.get("timing_s/adv").value(), 1, 1e-9) << "nothing else looks at it";
  is_seconds(gae.metrics.get("timing_s/values"));
  is_seconds(static_cast<double>(gae.trained.reference_ns) * 1e-9);
  is_seconds(static_cast<double>(gae.trained.proximal_ns) * 1e-9);
  EXPECT_FALSE(gae.metrics.get("timing_s/teacher"));
  const UpdateResult plain = began({});
  EXPECT_EQ(plain.trained.reference_ns, 0);
  EXPECT_FALSE(plain.metrics.get("timing_s/values"));
  EXPECT_FALSE(plain.metrics.get("actor/reward_kl_penalty"));
  const UpdateResult taught =
      began({"algo.objective=distill", "model.teacher_path=" + testing::fixture_model("mistral")});
  is_seconds(taught.metrics.get("timing_s/teacher"));
  EXPECT_NE(taught.metrics.get("actor/distill_kl").value(), 0);
}

// Each parallel section takes a second, and nothing else takes time.
class TimedExecutor final : public Executor {
 public:
  explicit TimedExecutor(FakeClock& clock) : clock_(clock), base_(make_thread_executor(1)) {}
  int num_threads() const override { return base_->num_threads(); }
  void parallel_for(int64_t count, FunctionRef<void(int64_t, int)> task) override {
    base_->parallel_for(count, task);
    clock_.advance(testing::kSecond);
  }

 private:
  FakeClock& clock_;
  std::unique_ptr<Executor> base_;
};

// The reference has the policy's shape: its forward takes as long as the one for log-probs that
// samples lack.
TEST(PolicyUpdate, ATimeIsThatOfItsOwnForward) {
  FakeClock clock;
  RuntimeSeams seams;
  seams.clock = &clock;
  seams.executor = std::make_unique<TimedExecutor>(clock);
  Bench b({"algo.advantage=gae", "algo.kl.where=reward"}, std::move(seams));
  const ComputeLease compute(b.model->runtime(), "a test");
  const LoadedModel::WriteLease write(*b.model, 0);
  const std::vector<SamplePtr> batch = foreign_batch();
  const ScoredLists lists(batch);
  b.update->begin(lists.view(), 0);
  while (b.update->next()) {
  }
  const UpdateResult result = b.update->finish();
  EXPECT_EQ(result.trained.samples_without_logprobs, 8);
  EXPECT_GT(result.trained.reference_ns, 0);
  EXPECT_EQ(result.trained.reference_ns, result.trained.proximal_ns);
  EXPECT_GT(result.metrics.get("timing_s/values").value(), 0);
  EXPECT_EQ(result.metrics.get("timing_s/adv"), 0.0) << "advantages are serial";
}

TEST(PolicyUpdate, AStepWithoutSamplesHasTheMetricsOfAStep) {
  Bench b;
  const uint64_t before = b.model->weight_digest();
  EXPECT_EQ(Bench().update->memory().size(), b.update->trainer().memory().size());
  const ComputeLease compute(b.model->runtime(), "a test");
  const UpdateResult none = b.update->without_samples();
  EXPECT_FALSE(none.applied);
  EXPECT_EQ(none.num_samples, 0);
  for (const char* name : {"critic/score/mean", "critic/advantages/max", "response_length/mean"}) {
    EXPECT_EQ(none.metrics.get(name), 0.0) << name;
  }
  EXPECT_EQ(b.model->weight_digest(), before);
}

TEST(PolicyUpdate, FunctionsOfTheHostAreExchanged) {
  Bench b({"algo.advantage=custom", "algo.policy_loss=custom"});
  EXPECT_FALSE(b.update->has_custom_advantage());
  EXPECT_FALSE(b.update->has_custom_loss());
  CustomAdvantage advantage = [](const AlgoArrays&, std::span<double>) {};
  CustomLoss loss = [](const AlgoArrays&, std::span<const double>, std::span<double>) {
    return 0.;
  };
  b.update->swap_custom_advantage(advantage);
  EXPECT_TRUE(b.update->has_custom_advantage());
  EXPECT_FALSE(advantage) << "there was none before";
  EXPECT_FALSE(b.update->has_custom_loss());
  b.update->swap_custom_loss(loss);
  EXPECT_TRUE(b.update->has_custom_loss());
  EXPECT_FALSE(loss);
  b.update->swap_custom_loss(loss);
  EXPECT_FALSE(b.update->has_custom_loss());
  EXPECT_TRUE(static_cast<bool>(loss)) << "the caller has it back";
}

// A teacher of the policy's own weights, against log-probs that are higher by 1/2.
TEST(TeacherRole, TakesTheRatioOfLossTokensFromTheirAdvantages) {
  Bench b({"algo.objective=distill", "model.teacher_path=" + testing::fixture_model("llama")});
  const auto teacher = TeacherRole::make(*b.model, b.options, b.plan, b.workspace());
  ASSERT_NE(teacher, nullptr);
  EXPECT_EQ(teacher->rows(), nullptr);
  std::vector<SamplePtr> samples = {foreign_sample(0), foreign_sample(5)};
  BatchAdvantages a;
  for (const SamplePtr& s : samples) {
    s->logprobs = b.logprobs(*s);
    for (float& v : s->logprobs) v += 0.5f;
    a.mask.insert(a.mask.end(), s->loss_mask.begin(), s->loss_mask.end());
  }
  samples[1]->logprobs[2] += 1.5f;
  a.advantages.assign(6, 1.0);
  const auto measured = teacher->apply_teacher(samples, 2, a);
  ASSERT_TRUE(measured);
  constexpr double kFloat = 1e-5;  // of log-probs in fp32
  EXPECT_NEAR(measured->kl, (0.5 + 0.5 + 0.5 + 2) / 4, kFloat);
  const double expected[] = {0, 1, 0, 0, 1, -3};
  for (size_t t = 0; t < 6; ++t) EXPECT_NEAR(a.advantages[t], expected[t], kFloat) << t;
  EXPECT_TRUE(a.varies);
  a.mask.assign(6, 0);
  EXPECT_EQ(teacher->apply_teacher(samples, 2, a)->kl, 0) << "no token carries loss";
}

TEST(TeacherRole, OfWholeRowsLeavesTheAdvantages) {
  Bench b({"algo.objective=distill", "algo.distill.kl=forward",
           "model.teacher_path=" + testing::fixture_model("llama")});
  const auto teacher = TeacherRole::make(*b.model, b.options, b.plan, b.workspace());
  ASSERT_NE(teacher, nullptr);
  EXPECT_NE(teacher->rows(), nullptr);
  BatchAdvantages a;
  a.advantages = {1};
  const std::vector<SamplePtr> samples = {foreign_sample(0)};
  EXPECT_FALSE(teacher->apply_teacher(samples, 2, a));
  EXPECT_EQ(a.advantages, std::vector<double>{1});
  EXPECT_FALSE(a.varies);
  Bench plain;
  EXPECT_EQ(TeacherRole::make(*plain.model, plain.options, plain.plan, plain.workspace()), nullptr);
}

}  // namespace
}  // namespace rl
