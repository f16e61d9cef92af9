// What a step says about itself, exactly: its times on a clock that ticks when it is read, the
// tokens of its spans, what was compared and counted, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/random_llama.h"
#include "support/temp_dir.h"
#include "ticking_clock.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

// Tokens of all spans of a name.
class SpanTokens final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    const std::lock_guard lock(mutex_);
    if (span.arg_name == nullptr) return;
    EXPECT_STREQ(span.arg_name, "tokens");
    tokens[span.name] += span.arg_value;
  }
  void counter(const char*, uint32_t, int64_t, double) noexcept override {}
  void lane_name(uint32_t, std::string_view) noexcept override {}
  std::map<std::string, int64_t> tokens;

 private:
  std::mutex mutex_;
};

TrainerOptions usual_options() {
  TrainerOptions o;
  o.max_tokens = 64;
  o.schedule.lr = 1e-3;
  return o;
}

std::vector<Sample> stored_samples(TrainRig& rig, int count = 8) {
  std::vector<Sample> samples = random_samples(count, rig.model().config().vocab, 4);
  store_logprobs(rig, samples);
  return samples;
}

int64_t loss_tokens(std::span<const Sample> samples) {
  int64_t sum = 0;
  for (const Sample& s : samples) sum += std::ranges::count(s.loss_mask, 1);
  return sum;
}

int64_t rows_of(std::span<const Sample> samples) {
  int64_t sum = 0;
  for (const Sample& s : samples) sum += make_pack_item(s, 0, WantedTokens::kLoss).rows;
  return sum;
}

// Two looks at the clock are one tick of a phase, so each total counts the phases of its kind.
TEST(StepTimes, EveryPhaseIsTimedByItself) {
  TrainerOptions o = usual_options();
  o.policy_loss.kind = PolicyLoss::kGspo;  // needs current log-probs
  o.kl_in_loss = true;
  o.correction.decoupled = true;
  o.batch.num_minibatches = 2;
  TrainRig rig({.with_reference = true}, o);
  std::vector<Sample> samples = stored_samples(rig, 12);
  for (Sample& s : samples) std::ranges::fill(s.versions, kUnknownVersion);
  const TickingClock clock;
  Trainer trainer(rig.model(), rig.reference.get(), o, rig.workspace.data(), {.clock = &clock});
  const TrainMetrics m = trainer.step(with_advantages(samples));
  ASSERT_EQ(m.minibatches, 2);
  ASSERT_GT(m.micro_batches, 3);
  EXPECT_EQ(m.reference_ns, 1);
  EXPECT_EQ(m.proximal_ns, 1);
  EXPECT_EQ(m.current_ns, 2);
  EXPECT_EQ(m.prepare_ns, 2);
  EXPECT_EQ(m.forward_ns, m.micro_batches);
  EXPECT_EQ(m.head_ns, m.micro_batches);
  EXPECT_EQ(m.backward_ns, m.micro_batches);
  EXPECT_EQ(m.optimizer_ns, 2);
  EXPECT_EQ(m.publish_ns, 1);
  EXPECT_EQ(m.teacher_ns, 0);
  const int64_t phases = 1 + 1 + 2 + 2 + 3 * m.micro_batches + 2;
  EXPECT_EQ(m.total_ns, 2 * phases + 1 + m.publish_ns) << "from the first look to the last";
}

TEST(StepTimes, APhaseThatIsNotNeededTakesNoTime) {
  const TickingClock clock;
  TrainRig rig({}, usual_options());
  const std::vector<Sample> samples = stored_samples(rig);
  Trainer trainer(rig.model(), nullptr, usual_options(), rig.workspace.data(), {.clock = &clock});
  TrainMetrics m = trainer.train(with_advantages(samples));
  EXPECT_EQ(m.reference_ns + m.proximal_ns + m.current_ns + m.teacher_ns + m.publish_ns, 0);
  EXPECT_EQ(m.prepare_ns, 1);
  const int64_t before = m.total_ns;
  trainer.publish(m);
  EXPECT_EQ(m.publish_ns, 1);
  EXPECT_EQ(m.total_ns, before + 1);
  trainer.publish(m);
  EXPECT_EQ(m.publish_ns, 1) << "there is nothing left to publish";
}

TEST(StepSpans, ShowTheTokensOfTheirPhase) {
  TrainerOptions o = usual_options();
  o.distill = {true, {DistillKl::kForward, 0.5}, 1};
  TrainRig rig({.teacher = "mistral"}, o);
  const std::vector<Sample> samples = stored_samples(rig);
  Tracer tracer;
  const auto sink = std::make_shared<SpanTokens>();
  tracer.set_sink(sink);
  const TrainShape shape = shape_of(*rig.teacher);
  const Arena forward("test forward", RowTeacher::forward_bytes(shape, o));
  const Arena kept("test kept", RowTeacher::kept_bytes(shape, o));
  RowTeacher teacher(*rig.teacher, o, {forward.data(), kept.data()}, {&tracer, 5, &real_clock()});
  Trainer trainer(rig.model(), nullptr, o, rig.workspace.data(), {.tracer = &tracer});
  trainer.set_row_teacher(&teacher);
  const TrainMetrics m = trainer.step(with_advantages(samples));
  EXPECT_GT(m.computed_rows, m.loss_tokens);
  EXPECT_EQ(sink->tokens, (std::map<std::string, int64_t>{{"train.forward", m.computed_rows},
                                                          {"train.teacher", m.computed_rows},
                                                          {"train.head", m.loss_tokens},
                                                          {"train.backward", m.computed_rows}}));
  trainer.set_row_teacher(nullptr);
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { trainer.train(with_advantages(samples)); });
  EXPECT_EQ(e.key, "algo.distill.kl");
  EXPECT_TRUE(contains(e.message, "algo.distill.kl = forward"));
}

TEST(StepCounts, CountEveryEpoch) {
  TrainerOptions o = usual_options();
  o.epochs = 3;
  o.batch.num_minibatches = 2;
  o.batch.shared_prefix = false;
  TrainRig rig({}, o);
  const std::vector<Sample> samples = stored_samples(rig);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.samples, 8);
  EXPECT_EQ(m.tokens, 3 * rows_of(samples));
  EXPECT_EQ(m.computed_rows, m.tokens);
  EXPECT_EQ(m.loss_tokens, 3 * loss_tokens(samples));
  EXPECT_EQ(m.minibatches, 6);
  EXPECT_EQ(m.optimizer_steps, 6);
  EXPECT_EQ(m.rows_not_scored, rows_of(samples)) << "once a step";
  const std::span<const Sample> all(samples);
  EXPECT_EQ(m.logprob_compared_tokens, loss_tokens(all.first(4)));
  EXPECT_EQ(m.probabilities.count, loss_tokens(all.first(4)));
}

TEST(StepCounts, RowsOfOtherWeightsAreScored) {
  TrainerOptions o = usual_options();
  o.correction.decoupled = true;
  TrainRig rig({}, o);
  std::vector<Sample> samples = stored_samples(rig);
  for (const size_t i : {1, 6}) {
    samples[i].loss_mask.back() = 1;
    samples[i].versions.back() = kUnknownVersion;
  }
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.proximal_samples, 2);
  const std::span<const Sample> all(samples);
  EXPECT_EQ(m.rows_not_scored,
            rows_of(all) - rows_of(all.subspan(1, 1)) - rows_of(all.subspan(6, 1)));
}

// A token that carries no loss may be of any weights.
TEST(StepCounts, AMaskedTokenOfOtherWeightsIsNoReasonToScore) {
  TrainerOptions o = usual_options();
  o.correction.decoupled = true;
  TrainRig rig({}, o);
  std::vector<Sample> samples = stored_samples(rig);
  samples[1].loss_mask.front() = 0;
  samples[1].versions.front() = kUnknownVersion;
  EXPECT_EQ(rig.trainer->step(with_advantages(samples)).proximal_samples, 0);
}

// The weights are as they were until the first optimizer step, whichever minibatch that is in.
TEST(StepCounts, AMinibatchWithoutLossDoesNotEndTheComparison) {
  TrainerOptions o = usual_options();
  o.batch.num_minibatches = 2;
  TrainRig rig({}, o);
  std::vector<Sample> samples = stored_samples(rig);
  for (size_t i = 0; i < 4; ++i) std::ranges::fill(samples[i].loss_mask, 0);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(rig.trainer->planned_steps(), 1);
  EXPECT_EQ(m.minibatches, 1);
  EXPECT_GT(m.loss_tokens, 0);
  EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
  EXPECT_EQ(m.probabilities.count, m.loss_tokens);
  EXPECT_EQ(m.logprob_max_abs_diff, 0);
}

TEST(StepCounts, LogprobsAreNotComparedWithWeightsThatAreNotPublished) {
  TrainRig rig({}, usual_options());
  const std::vector<Sample> samples = stored_samples(rig);
  EXPECT_GT(rig.trainer->train(with_advantages(samples)).logprob_compared_tokens, 0);
  const TrainMetrics again = rig.trainer->train(with_advantages(samples));
  EXPECT_EQ(again.logprob_compared_tokens, 0);
  EXPECT_EQ(again.probabilities.count, 0);
}

TEST(StepCounts, AStoredLogprobThatIsNotANumberIsInfinitelyFar) {
  TrainerOptions o = usual_options();
  TrainRig rig({}, o);
  std::vector<Sample> samples = stored_samples(rig);
  samples[3].loss_mask[0] = 1;
  samples[3].logprobs[0] = std::numeric_limits<float>::quiet_NaN();
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.logprob_max_abs_diff, std::numeric_limits<double>::infinity());
  EXPECT_EQ(m.logprob_compared_tokens, loss_tokens(samples));
  EXPECT_EQ(m.probabilities.count, loss_tokens(samples) - 1);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.loss, 0);
  EXPECT_EQ(m.grad_norm, 0);
  EXPECT_EQ(m.lr, 0) << "there was no optimizer step";
  EXPECT_EQ(m.entropy, 0);
  o.check_logprobs = true;
  TrainRig strict({}, o);
  const Error e = expect_error(Code::kFailedPrecondition,
                               [&] { strict.trainer->step(with_advantages(samples)); });
  EXPECT_EQ(e.key, "trainer.check_logprobs");
  const int32_t position = samples[3].prompt_tokens;
  EXPECT_EQ(e.location, str("position ", position));
  EXPECT_TRUE(contains(e.message, str("sample ", samples[3].id, " (ordinal 0, slot 3)")));
  EXPECT_TRUE(contains(e.message, str("generated token 0, id ", samples[3].ids[position])));
  EXPECT_TRUE(contains(e.message, "version 0;"));
}

TEST(StepCounts, ADifferenceOfLogprobsIsTheLargestOfAllTokens) {
  TrainRig rig({}, usual_options());
  std::vector<Sample> samples = stored_samples(rig);
  for (const size_t i : {2, 5}) std::ranges::fill(samples[i].loss_mask, 1);
  samples[2].logprobs[0] -= 0.5f;
  samples[5].logprobs[0] += 0.25f;
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_NEAR(m.logprob_max_abs_diff, 0.5, 1e-6);  // the sum is rounded to fp32
  EXPECT_NEAR(m.ratio_max, std::exp(0.5), 1e-5);
}

TEST(StepCounts, CorrectionsAreReportedOnlyWhereTheyAct) {
  TrainerOptions o = usual_options();
  o.correction.opsm_delta = 0.5;
  for (const Objective objective : {Objective::kRl, Objective::kDistill, Objective::kSft}) {
    o.objective = objective;
    TrainRig rig({}, o);
    const std::vector<Sample> samples = stored_samples(rig);
    const TrainMetrics m = rig.trainer->step(with_advantages(samples));
    EXPECT_EQ(m.has_corrections, objective != Objective::kSft);
    EXPECT_EQ(m.objective, objective);
    EXPECT_FALSE(m.has_row_teacher);
  }
}

// The reference is the policy itself: 0 where it is asked, 0.5 nats where another one is given.
TEST(StepCounts, TheReferenceIsAskedForWhatIsNotGiven) {
  TrainerOptions o = usual_options();
  o.kl_in_loss = true;
  o.kl_coef = 0.25;
  o.kl_estimator.kind = KlKind::kK1;
  TrainRig rig({.with_reference = true}, o);
  std::vector<Sample> samples = stored_samples(rig);
  for (const size_t i : {0, 7}) std::ranges::fill(samples[i].loss_mask, 1);
  std::vector<TrainSample> batch = with_advantages(samples);
  std::vector<float> first = samples[0].logprobs, last = samples[7].logprobs;
  for (auto* given : {&first, &last}) {
    for (float& lp : *given) lp -= 0.5f;
  }
  batch[0].ref_logprobs = first;
  batch[7].ref_logprobs = last;
  const TrainMetrics m = rig.trainer->step(batch);
  const std::span<const Sample> all(samples);
  const auto given = static_cast<double>(loss_tokens(all.first(1)) + loss_tokens(all.last(1)));
  const double kl = 0.5 * given / static_cast<double>(m.loss_tokens);
  EXPECT_NEAR(m.kl, kl, 1e-6);  // the log-probs are rounded to fp32
  EXPECT_NEAR(m.kl_loss, 0.25 * kl, 1e-6);
  EXPECT_NEAR(m.loss, m.pg_loss + m.kl_loss, 1e-12);
}

TEST(Publication, MastersThatSomethingElseChangedGetTheNextVersion) {
  TrainRig rig({}, usual_options());
  EXPECT_EQ(rig.trainer->publish(), 0u) << "nothing was trained";
  EXPECT_EQ(rig.trainer->publish_masters(), 1u);
  EXPECT_EQ(rig.trainer->publish_masters(), 2u);
  EXPECT_EQ(rig.trainer->publish(), 2u);
  EXPECT_EQ(rig.trainer->trained_version(), 2u);
  EXPECT_EQ(rig.trainer->counters().weight_version, 2u);
}

// Staged weights are packed, but still of the version before.
TEST(Publication, StagedWeightsAwaitTheirVersion) {
  TrainRig rig({}, usual_options());
  const std::vector<Sample> samples = stored_samples(rig);
  rig.trainer->train(with_advantages(samples));
  EXPECT_TRUE(rig.model().masters_changed());
  rig.trainer->stage();
  EXPECT_FALSE(rig.model().masters_changed());
  EXPECT_EQ(rig.model().version(), 0u);
  EXPECT_EQ(rig.trainer->trained_version(), 1u);
  EXPECT_EQ(rig.trainer->train(with_advantages(samples)).logprob_compared_tokens, 0);
  EXPECT_EQ(rig.trainer->publish(), 1u);
  EXPECT_EQ(rig.trainer->trained_version(), 1u);
}

// Clipped to a norm of 1, gradients whose squares the moments could not hold are an update like
// any other.
TEST(StepCounts, AClippedGradientMayBeOfAnySize) {
  TrainRig rig({}, usual_options());
  const std::vector<Sample> samples = stored_samples(rig);
  const std::vector<float> before = rig.masters();
  std::vector<TrainSample> batch = with_advantages(samples);
  for (TrainSample& s : batch) s.advantage = 1e22;
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_GT(m.grad_norm, 1e18);
  EXPECT_EQ(m.optimizer_steps, 1);
  EXPECT_EQ(m.skipped_steps, 0);
  EXPECT_EQ(m.lr, 1e-3);
  EXPECT_FALSE(same_bits(rig.masters(), before));
  for (const float v : rig.masters()) ASSERT_TRUE(std::isfinite(v));
}

TEST(Refusals, ALossFunctionThatIsTakenAwayIsMissed) {
  TrainerOptions o = usual_options();
  o.policy_loss.kind = PolicyLoss::kCustom;
  TrainRig rig({}, o);
  const std::vector<Sample> samples = stored_samples(rig);
  int calls = 0;
  rig.trainer->set_custom_loss(
      [&](const AlgoArrays&, std::span<const double>, std::span<double> gradient) {
        ++calls;
        std::ranges::fill(gradient, 0.5);
        return 2.0;
      });
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(m.loss, 2);
  EXPECT_EQ(m.pg_loss, 2);
  rig.trainer->set_custom_loss(nullptr);
  const std::vector<float> before = rig.masters();
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { rig.trainer->step(with_advantages(samples)); });
  EXPECT_EQ(e.key, "algo.policy_loss");
  EXPECT_TRUE(contains(e.message, "algo.policy_loss = custom, but no loss function"));
  EXPECT_EQ(rig.trainer->planned_steps(), 0);
  EXPECT_TRUE(same_bits(rig.masters(), before));
}

TEST(Refusals, AReferenceHasTheShapeOfTheModel) {
  const TempDir dir;
  const TinyModel own(TinyModel::fixture("llama"));
  const TrainerOptions o = usual_options();
  const TrainerSizes sizes = Trainer::plan(own.model->config(), own.model->kv_shape(), o, 1);
  const Arena workspace("workspace", sizes.workspace);
  const auto refused = [&](const TinyModel& other) {
    const Error e = expect_error(
        Code::kIncompatible, [&] { Trainer(*own.model, other.model.get(), o, workspace.data()); });
    EXPECT_EQ(e.key, "model.reference_path");
    return e.message;
  };
  const TinyModel small(
      write_random_llama(dir.file("small"), {.hidden = 80, .layers = 1, .heads = 5}));
  EXPECT_TRUE(contains(refused(small), "the reference model (hidden 80, layers 1, vocab 256)"));
  const TinyModel blocks(TinyModel::fixture("llama"), Dtype::kF32, 1, 32);
  EXPECT_TRUE(contains(refused(blocks), "of the trained model (hidden 64, layers 2, vocab 256)"));
  const TinyModel same(TinyModel::fixture("llama"));
  EXPECT_NO_THROW(Trainer(*own.model, same.model.get(), o, workspace.data()));
}

TEST(Refusals, WeightsThatAreNotPublishedAreNotSaved) {
  const TempDir dir;
  const CheckpointMeta meta{.step = 1, .config_digest = "digest", .pipeline = "{}"};
  TrainRig rig({}, usual_options());
  const std::vector<Sample> samples = stored_samples(rig);
  rig.trainer->train(with_advantages(samples));
  const Error e = expect_error(Code::kFailedPrecondition,
                               [&] { rig.trainer->save(real_fs(), dir.path(), meta); });
  EXPECT_TRUE(contains(e.message, "a checkpoint holds published weights"));
  EXPECT_TRUE(real_fs().list(dir.path()).empty());
  rig.trainer->publish();
  rig.trainer->save(real_fs(), dir.path(), meta);
  EXPECT_EQ(real_fs().list(dir.path()), std::vector<std::string>{"step_000001"});
}

}  // namespace
}  // namespace rl::testing
