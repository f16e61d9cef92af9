// The training step as a whole: what the cut into micro-batches, chunks and threads may change,
// what it skips, what it refuses.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <iostream>
#include <limits>
#include <set>

#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions usual_options() {
  TrainerOptions o;
  o.max_tokens = 512;
  o.logprob_chunk_tokens = 64;
  o.schedule.lr = 1e-3;
  return o;
}

struct StepResult {
  TrainMetrics metrics;
  std::vector<float> gradients, masters;
};

// One step on 24 samples whose stored log-probs are the model's own.
StepResult one_step(const RigOptions& rig_options, const TrainerOptions& options,
                    bool reversed = false) {
  TrainRig rig(rig_options, options);
  std::vector<Sample> samples = random_samples(24, rig.model().config().vocab, 11);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  if (reversed) std::ranges::reverse(batch);
  StepResult r;
  r.metrics = rig.trainer->step(batch);
  r.gradients = rig.gradients();
  r.masters = rig.masters();
  return r;
}

class EveryDtype : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, EveryDtype, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(EveryDtype, MicroBatchCutsLeaveLogprobsEqualAndGradientsClose) {
  // Weight gradients sum over tokens, so another cut is another order of summation (N4).
  const double bound = GetParam() == Dtype::kF32 ? 1e-6 : 1e-3;
  const RigOptions rig{.compute = GetParam(), .threads = 2};
  const StepResult whole = one_step(rig, usual_options());
  EXPECT_EQ(whole.metrics.logprob_max_abs_diff, 0.0);
  EXPECT_GT(whole.metrics.logprob_compared_tokens, 200);
  double largest = 0;
  for (const int64_t max_tokens : {50, 97, 200}) {
    for (const int64_t chunk : {0, 1, 7}) {
      TrainerOptions o = usual_options();
      o.max_tokens = max_tokens;
      o.logprob_chunk_tokens = chunk;
      const StepResult cut = one_step(rig, o);
      EXPECT_GT(cut.metrics.micro_batches, whole.metrics.micro_batches);
      EXPECT_EQ(cut.metrics.tokens, whole.metrics.tokens);
      EXPECT_EQ(cut.metrics.logprob_max_abs_diff, 0.0);
      EXPECT_NEAR(cut.metrics.loss, whole.metrics.loss, 1e-12);  // sums in double
      largest = std::max(largest, relative_l2(cut.gradients, whole.gradients));
    }
  }
  EXPECT_LE(largest, bound);
  std::cout << "relative L2 of gradients over micro-batch cuts, " << dtype_name(GetParam()) << ": "
            << largest << "\n";
  RecordProperty("relative_l2", std::to_string(largest));
}

TEST_P(EveryDtype, ThreadsAndOrderOfArrivalLeaveTheBits) {
  for (const char* model : {"llama", "smollm2", "qwen2"}) {
    const StepResult one =
        one_step({.model = model, .compute = GetParam(), .threads = 1}, usual_options());
    const StepResult two =
        one_step({.model = model, .compute = GetParam(), .threads = 2}, usual_options());
    const StepResult late =
        one_step({.model = model, .compute = GetParam(), .threads = 2}, usual_options(), true);
    EXPECT_TRUE(same_bits(one.gradients, two.gradients)) << model;
    EXPECT_TRUE(same_bits(one.masters, two.masters)) << model;
    EXPECT_TRUE(same_bits(one.masters, late.masters)) << model;
    EXPECT_EQ(one.metrics.loss, two.metrics.loss);
    EXPECT_EQ(one.metrics.grad_norm, two.metrics.grad_norm);
    EXPECT_EQ(one.metrics.entropy, two.metrics.entropy);
  }
}

TEST_P(EveryDtype, FirstMinibatchHasRatioOneAndTheNextHaveNot) {
  TrainerOptions o = usual_options();
  const StepResult first = one_step({.compute = GetParam()}, o);
  EXPECT_EQ(first.metrics.ratio_max, 1.0);
  EXPECT_EQ(first.metrics.ppo_kl, 0.0);
  EXPECT_EQ(first.metrics.clip_fraction, 0.0);
  o.epochs = 2;
  o.batch.num_minibatches = 2;
  const StepResult more = one_step({.compute = GetParam()}, o);
  EXPECT_EQ(more.metrics.optimizer_steps, 4);
  EXPECT_EQ(more.metrics.tokens, 2 * first.metrics.tokens);
  EXPECT_EQ(more.metrics.logprob_max_abs_diff, 0.0);
  EXPECT_LT(more.metrics.logprob_compared_tokens, first.metrics.logprob_compared_tokens);
  EXPECT_GT(more.metrics.ratio_max, 1.0);
  EXPECT_NE(more.metrics.ppo_kl, 0.0);
}

TEST_P(EveryDtype, LogprobsDoNotDependOnThePacking) {
  for (const float temperature : {0.7f, 1.0f}) {
    std::vector<Sample> samples;
    for (const int64_t max_tokens : {512, 64, 50}) {
      TrainerOptions o = usual_options();
      o.max_tokens = max_tokens;
      o.logprob_chunk_tokens = max_tokens == 64 ? 5 : 0;
      TrainRig rig({.model = "smollm2", .compute = GetParam(), .threads = 2}, o);
      std::vector<Sample> again = random_samples(16, rig.model().config().vocab, 3, temperature);
      store_logprobs(rig, again);
      if (samples.empty()) samples = again;
      for (size_t i = 0; i < samples.size(); ++i) {
        EXPECT_TRUE(same_bits(again[i].logprobs, samples[i].logprobs)) << max_tokens << " " << i;
        EXPECT_LT(again[i].logprobs[0], 0.0f);
      }
    }
  }
}

TEST(Trainer, StepPublishesOnceAndCountsVersions) {
  TrainerOptions o = usual_options();
  o.batch.num_minibatches = 3;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(12, 256, 4);
  store_logprobs(rig, samples);
  EXPECT_EQ(rig.trainer->step(with_advantages(samples)).optimizer_steps, 3);
  EXPECT_EQ(rig.model().version(), 1u);
  const TrainMetrics stale = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(stale.logprob_compared_tokens, 0);  // the stored log-probs are of version 0
  EXPECT_EQ(rig.trainer->counters().optimizer_steps, 6);
  EXPECT_EQ(rig.trainer->counters().weight_version, 2u);
}

TEST(Trainer, TokensOfMixedKvAreNotCompared) {
  TrainRig rig({}, usual_options());
  std::vector<Sample> samples = random_samples(4, 256, 4);
  store_logprobs(rig, samples);
  Sample& mixed = samples[2];
  mixed.mixed_kv.assign(mixed.versions.size(), 0);
  mixed.mixed_kv.back() = 1;
  mixed.loss_mask.back() = 1;
  mixed.logprobs.back() -= 0.5f;
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens - 1);
  EXPECT_EQ(m.probabilities.count, m.loss_tokens);
  EXPECT_GT(m.ratio_max, 1.5);  // exp(0.5): the ratio is against what was stored
}

TEST(Trainer, TrainLeavesPublicationToTheCaller) {
  std::vector<float> masters[2];
  for (const bool split : {false, true}) {
    TrainRig rig({}, usual_options());
    std::vector<Sample> samples = random_samples(12, 256, 4);
    store_logprobs(rig, samples);
    for (int i = 0; i < 2; ++i) {
      if (!split) {
        rig.trainer->step(with_advantages(samples));
        continue;
      }
      EXPECT_EQ(rig.trainer->trained_version(), i == 0 ? 0u : 1u);
      rig.trainer->train(with_advantages(samples));
      EXPECT_EQ(rig.model().version(), 0u);
      EXPECT_EQ(rig.trainer->trained_version(), 1u);
      expect_error(Code::kFailedPrecondition,
                   [&] { rig.trainer->save(real_fs(), "/nonexistent", {}); });
    }
    EXPECT_EQ(rig.trainer->publish(), split ? 1u : 2u);
    EXPECT_EQ(rig.trainer->publish(), split ? 1u : 2u);
    masters[split] = rig.masters();
  }
  EXPECT_TRUE(same_bits(masters[0], masters[1]));
}

TEST(Trainer, PlannedStepsAreOfTheLastTrainAndNoneOfOneThatIsRefused) {
  TrainerOptions o = usual_options();
  o.batch.num_minibatches = 3;
  TrainRig rig({}, o);
  EXPECT_EQ(rig.trainer->planned_steps(), 0);
  std::vector<Sample> samples = random_samples(12, 256, 4);
  store_logprobs(rig, samples);
  rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(rig.trainer->planned_steps(), 3);
  samples.front().ids.back() = 256;
  expect_error(Code::kOutOfRange, [&] { rig.trainer->step(with_advantages(samples)); });
  EXPECT_EQ(rig.trainer->planned_steps(), 0);
}

TEST(Trainer, TrainedWeightsAreTheOnesThatScore) {
  TrainRig rig({}, usual_options());
  std::vector<Sample> samples = random_samples(12, 256, 4);
  store_logprobs(rig, samples);
  const std::vector<Sample> before = samples;
  std::vector<TrainSample> batch;
  for (const Sample& s : before) batch.push_back({&s, 1.0, {}, {}});
  for (int i = 0; i < 5; ++i) rig.trainer->step(batch);
  store_logprobs(rig, samples);
  double change = 0;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t g = 0; g < samples[i].logprobs.size(); ++g)
      if (samples[i].loss_mask[g]) change += samples[i].logprobs[g] - before[i].logprobs[g];
  EXPECT_GT(change, 10.0);  // tokens with advantage 1 became more likely
  batch.clear();
  for (const Sample& s : samples) batch.push_back({&s, 1.0, {}, {}});
  EXPECT_EQ(rig.trainer->step(batch).logprob_max_abs_diff, 0.0);
}

// They are those of the weights as the last step left them, published or not.
TEST(Trainer, HiddenStatesAreOfTheTrainedWeights) {
  TrainRig rig({}, usual_options());
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  const auto hidden = [&] {
    const TensorPtr t = hidden_of(rig, samples[0]);
    const auto* first = static_cast<const float*>(t->data());
    return std::vector<float>(first, first + t->num_bytes() / sizeof(float));
  };
  const std::vector<float> before = hidden();
  rig.trainer->train(with_advantages(samples));
  ASSERT_EQ(rig.model().version(), 0u);
  const std::vector<float> trained = hidden();
  EXPECT_FALSE(same_bits(trained, before));
  rig.trainer->publish();
  EXPECT_TRUE(same_bits(hidden(), trained));
}

TEST(Trainer, LogprobsAreOfTheTrainedWeightsToo) {
  TrainRig rig({}, usual_options());
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  const std::vector<float> before = samples[0].logprobs;
  rig.trainer->train(with_advantages(samples));
  ASSERT_EQ(rig.model().version(), 0u);
  store_logprobs(rig, samples);
  const std::vector<float> trained = samples[0].logprobs;
  EXPECT_FALSE(same_bits(trained, before));
  rig.trainer->publish();
  store_logprobs(rig, samples);
  EXPECT_TRUE(same_bits(samples[0].logprobs, trained));
}

TEST(Trainer, TheLongestSequenceHasHiddenStates) {
  TrainerOptions o = usual_options();
  o.max_sequence = 20;
  TrainRig rig({}, o);
  const auto shape_of = [&](size_t tokens) {
    return hidden_of(rig, make_sample(std::vector<int32_t>(tokens, 5), 1, 0, 0))->shape();
  };
  EXPECT_EQ(shape_of(20)[0], 20);
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { shape_of(21); }).key, "engine.max_model_len");
}

TEST(Trainer, NonFiniteAdvantageSkipsTheStepAndNamesTheSample) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    TrainRig rig({}, usual_options());
    std::vector<Sample> samples = random_samples(12, 256, 4);
    std::ranges::fill(samples[5].loss_mask, 1);
    store_logprobs(rig, samples);
    rig.trainer->step(with_advantages(samples));  // so that the moments are not zero
    const std::vector<float> masters = rig.masters();
    std::vector<TrainSample> batch = with_advantages(samples);
    batch[5].advantage = bad;
    const TrainMetrics m = rig.trainer->step(batch);
    EXPECT_EQ(m.skipped_steps, 1);
    EXPECT_EQ(m.optimizer_steps, 0);
    EXPECT_EQ(m.non_finite_samples, std::vector<uint64_t>{samples[5].id});
    EXPECT_TRUE(same_bits(rig.masters(), masters));
    EXPECT_EQ(rig.model().version(), 1u);
    EXPECT_EQ(rig.trainer->counters().optimizer_steps, 1);
    EXPECT_EQ(rig.trainer->counters().skipped_steps, 1);

    // What follows is as if the skipped step had never been.
    TrainRig clean({}, usual_options());
    clean.trainer->step(with_advantages(samples));
    clean.trainer->step(with_advantages(samples));
    EXPECT_TRUE(std::isfinite(rig.trainer->step(with_advantages(samples)).loss));
    EXPECT_TRUE(same_bits(rig.masters(), clean.masters()));
  }
}

TEST(Trainer, OnlyTheMinibatchThatIsNotFiniteIsSkipped) {
  TrainerOptions o = usual_options();
  o.batch.num_minibatches = 2;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[0].advantage = std::numeric_limits<double>::quiet_NaN();
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.optimizer_steps, 1);
  EXPECT_TRUE(std::isfinite(m.loss));
  EXPECT_TRUE(std::isfinite(m.grad_norm));
  int64_t first = 0;  // tokens of the first minibatch, the only one whose log-probs are compared
  for (size_t i = 0; i < 4; ++i) first += std::ranges::count(samples[i].loss_mask, 1);
  EXPECT_EQ(m.logprob_compared_tokens, first);
}

TEST(Trainer, TheMeanNormIsOfTheUpdatesThatWereMade) {
  TrainerOptions o = usual_options();
  o.grad_clip = 0;
  o.batch.num_minibatches = 2;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  for (size_t i = 0; i < 4; ++i) batch[i].advantage = 1e25;  // its loss is finite
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.optimizer_steps, 1);
  o.batch.num_minibatches = 1;
  TrainRig alone({}, o);
  EXPECT_EQ(m.grad_norm, alone.trainer->step(std::span(batch).subspan(4)).grad_norm);
}

TEST(Trainer, ASampleThatIsToBlameInEveryEpochIsNamedOnce) {
  TrainerOptions o = usual_options();
  o.epochs = 3;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  std::ranges::fill(samples[5].loss_mask, 1);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[5].advantage = std::numeric_limits<double>::quiet_NaN();
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_EQ(m.skipped_steps, 3);
  EXPECT_EQ(m.non_finite_samples, std::vector<uint64_t>{samples[5].id});
}

TEST(Trainer, HugeFiniteGradientsAreSkippedBeforeTheySpoilTheMoments) {
  TrainerOptions o = usual_options();
  o.grad_clip = 0;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  const std::vector<float> masters = rig.masters();
  std::vector<TrainSample> batch = with_advantages(samples);
  for (TrainSample& s : batch) s.advantage = 1e25;
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_TRUE(std::isfinite(m.loss));
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_TRUE(same_bits(rig.masters(), masters));
}

TEST(Trainer, GradientClippingBoundsTheUpdate) {
  // At t = 1 with eps far above |g|, AdamW moves a parameter by lr * g / eps.
  std::vector<double> moved;
  for (const double clip : {0.0, 0.25}) {
    TrainerOptions o = usual_options();
    o.adamw.eps = 1.0;
    o.schedule.lr = 1.0;
    o.grad_clip = clip;
    TrainRig rig({}, o);
    std::vector<Sample> samples = random_samples(8, 256, 4);
    store_logprobs(rig, samples);
    const std::vector<float> before = rig.masters();
    const TrainMetrics m = rig.trainer->step(with_advantages(samples));
    EXPECT_GT(m.grad_norm, 0.5);
    double sum = 0;
    const std::vector<float> after = rig.masters();
    for (size_t i = 0; i < before.size(); ++i) sum += std::pow(double{after[i]} - before[i], 2);
    moved.push_back(std::sqrt(sum));
  }
  EXPECT_GT(moved[0], 0.3);
  EXPECT_LE(moved[1], 0.25 * (1 + 1e-3));
}

TEST(Trainer, KlTermPullsTowardsTheReference) {
  TrainerOptions o = usual_options();
  o.kl_in_loss = true;
  o.kl_coef = 0.5;
  TrainRig rig({.with_reference = true}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  const TrainMetrics first = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(first.kl, 0.0);  // model and reference are the same weights
  const TrainMetrics second = rig.trainer->step(with_advantages(samples));
  EXPECT_GT(second.kl, 0.0);
  // token_mean: the weighted term is the coefficient times the mean over tokens.
  EXPECT_NEAR(second.kl_loss, o.kl_coef * second.kl, 1e-12);

  std::vector<TrainSample> quiet = with_advantages(samples);
  for (TrainSample& s : quiet) s.advantage = 0;
  double before = second.kl;
  for (int i = 0; i < 30; ++i) before = rig.trainer->step(quiet).kl;
  EXPECT_LT(before, second.kl);
}

TEST(Trainer, GivenReferenceLogprobsReplaceTheReferenceModel) {
  TrainerOptions o = usual_options();
  o.kl_in_loss = true;
  o.kl_coef = 0.5;
  TrainRig with({.with_reference = true}, o), without({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(with, samples);
  std::vector<TrainSample> given = with_advantages(samples);
  std::vector<std::vector<float>> reference;
  for (const Sample& s : samples) reference.push_back(s.logprobs);
  for (size_t i = 0; i < given.size(); ++i) given[i].ref_logprobs = reference[i];
  for (int i = 0; i < 2; ++i) {
    with.trainer->step(with_advantages(samples));
    without.trainer->step(given);
  }
  EXPECT_TRUE(same_bits(with.masters(), without.masters()));
}

TEST(Trainer, EntropyBonusRaisesEntropy) {
  TrainerOptions o = usual_options();
  o.entropy_coef = 1.0;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  for (TrainSample& s : batch) s.advantage = 0;
  const TrainMetrics first = rig.trainer->step(batch);
  EXPECT_NEAR(first.loss, -first.entropy, 1e-12);
  double entropy = 0;
  for (int i = 0; i < 10; ++i) entropy = rig.trainer->step(batch).entropy;
  EXPECT_GT(entropy, first.entropy + 0.05);
}

TEST(Trainer, TokenAdvantagesReplaceTheSampleAdvantage) {
  TrainRig a({}, usual_options()), b({}, usual_options());
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(a, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  a.trainer->step(batch);
  std::vector<std::vector<float>> per_token;
  for (const TrainSample& s : batch)
    per_token.emplace_back(s.sample->logprobs.size(), static_cast<float>(s.advantage));
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].token_advantages = per_token[i];
    batch[i].advantage = -7;
  }
  b.trainer->step(batch);
  EXPECT_TRUE(same_bits(a.masters(), b.masters()));
}

TEST(Trainer, ScheduleMovesOncePerOptimizerStep) {
  TrainerOptions o = usual_options();
  o.schedule = {ScheduleKind::kLinear, 1e-3, 2, 10, 1e-4};
  o.batch.num_minibatches = 2;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  for (const int64_t last : {1, 3, 5})
    EXPECT_EQ(rig.trainer->step(with_advantages(samples)).lr, learning_rate(o.schedule, last));
}

TEST(Trainer, SamplesWithoutLossTakeNoPart) {
  TrainRig a({}, usual_options()), b({}, usual_options());
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(a, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  a.trainer->step(batch);
  Sample silent = samples[2];
  std::ranges::fill(silent.loss_mask, 0);
  Sample empty = make_sample({1, 2, 3}, 3, 0, 7);
  batch.push_back({&silent, 1.0, {}, {}});
  batch.push_back({&empty, 1.0, {}, {}});
  EXPECT_EQ(b.trainer->step(batch).samples, 10);
  EXPECT_TRUE(same_bits(a.masters(), b.masters()));

  const std::vector<TrainSample> nothing(batch.end() - 2, batch.end());
  const TrainMetrics m = b.trainer->step(nothing);
  EXPECT_EQ(m.optimizer_steps, 0);
  EXPECT_EQ(m.minibatches, 0);
  EXPECT_EQ(b.model().version(), 1u);
  EXPECT_EQ(b.trainer->step({}).samples, 0);
}

// Names of spans in order of their end, repetitions in a row left out.
class SpanNames final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    EXPECT_EQ(span.lane, 3u);
    EXPECT_LE(span.start_ns, span.end_ns);
    if (names.empty() || names.back() != span.name) names.emplace_back(span.name);
  }
  void counter(const char*, uint32_t, int64_t, double) noexcept override {}
  void lane_name(uint32_t, std::string_view) noexcept override {}
  std::vector<std::string> names;
};

TEST(Trainer, PhasesOfAStepComeInOrder) {
  TrainerOptions o = usual_options();
  o.kl_in_loss = true;
  o.batch.num_minibatches = 2;
  TrainRig rig({.with_reference = true}, o);
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  Tracer tracer;
  const auto sink = std::make_shared<SpanNames>();
  tracer.set_sink(sink);
  Trainer trainer(rig.model(), rig.reference.get(), o, rig.workspace.data(),
                  {.tracer = &tracer, .lane = 3});
  const TrainMetrics m = trainer.step(with_advantages(samples));
  std::vector<std::string> expected = {"train.reference"};
  for (int minibatch = 0; minibatch < 2; ++minibatch) {
    for (const char* name :
         {"train.prepare", "train.forward", "train.head", "train.backward", "train.optimizer"}) {
      expected.emplace_back(name);
    }
  }
  expected.emplace_back("train.publish");
  EXPECT_EQ(sink->names, expected);
  const int64_t parts = m.reference_ns + m.prepare_ns + m.forward_ns + m.head_ns + m.backward_ns +
                        m.optimizer_ns + m.publish_ns;
  EXPECT_GT(m.forward_ns, 0);
  EXPECT_LE(parts, m.total_ns);

  std::vector<std::string> names;
  for_each_metric(m, [&](const char* name, double value) {
    names.emplace_back(name);
    EXPECT_TRUE(std::isfinite(value)) << name;
  });
  EXPECT_EQ(names.size(), std::set<std::string>(names.begin(), names.end()).size());
  EXPECT_NE(std::ranges::find(names, "actor/pg_loss"), names.end());
}

TEST(Trainer, PlanEqualsTheArenas) {
  TinyModel tiny(TinyModel::fixture("llama"));
  const uint64_t model_bytes = tiny.ledger.bytes();
  const TrainerSizes sizes =
      Trainer::plan(tiny.model->config(), tiny.model->kv_shape(), usual_options(), 1);
  const Arena workspace("workspace", sizes.workspace);
  Trainer trainer(*tiny.model, nullptr, usual_options(), workspace.data());
  EXPECT_EQ(tiny.ledger.bytes() - model_bytes, sizes.persistent());
  uint64_t end = 0;
  for (const auto& p : sizes.workspace_regions) {
    EXPECT_GE(p.offset, end);
    end = p.offset + p.bytes;
  }
  EXPECT_LE(end, sizes.workspace);
}

TEST(Trainer, NothingBeyondTheWorkspaceIsWritten) {
  TrainRig rig({.threads = 2}, usual_options());
  constexpr size_t kGuard = 4096;
  std::vector<std::byte> bytes(rig.sizes.workspace + 2 * kGuard + 64, std::byte{0x5a});
  const size_t skew = 64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64;
  std::byte* start = bytes.data() + skew + kGuard - kGuard % 64;
  Trainer trainer(rig.model(), nullptr, usual_options(), start);
  std::vector<Sample> samples = random_samples(24, 256, 4);
  trainer.step(with_advantages(samples));
  const auto untouched = [](std::byte b) { return b == std::byte{0x5a}; };
  EXPECT_TRUE(std::all_of(bytes.data(), start, untouched));
  EXPECT_TRUE(std::all_of(start + rig.sizes.workspace, bytes.data() + bytes.size(), untouched));
}

// A change to one sample that must be refused, and the word its error must hold.
struct BadSample {
  const char* field;
  Code code;
  void (*spoil)(Sample&);
};

class RefusedSample : public ::testing::TestWithParam<BadSample> {};

TEST_P(RefusedSample, IsNamedBeforeAnythingRuns) {
  TrainRig rig({}, usual_options());
  std::vector<Sample> samples = random_samples(8, 256, 4);
  store_logprobs(rig, samples);
  const std::vector<float> masters = rig.masters();
  samples[6].id = 4711;
  GetParam().spoil(samples[6]);
  const Error e =
      expect_error(GetParam().code, [&] { rig.trainer->step(with_advantages(samples)); });
  EXPECT_TRUE(contains(e.message, "sample 4711"));
  EXPECT_TRUE(contains(e.message, GetParam().field));
  EXPECT_EQ(e.key, GetParam().field);
  EXPECT_TRUE(same_bits(rig.masters(), masters));
  EXPECT_EQ(rig.model().version(), 0u);
}

void make_long(Sample& s, size_t tokens) {
  s = make_sample(std::vector<int32_t>(tokens, 5), 1, 1, 2);
  s.id = 4711;
}

INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedSample,
    ::testing::Values(
        BadSample{"ids", Code::kOutOfRange, [](Sample& s) { s.ids[1] = 256; }},
        BadSample{"ids", Code::kOutOfRange, [](Sample& s) { s.ids.back() = -1; }},
        BadSample{"prompt_tokens", Code::kOutOfRange, [](Sample& s) { s.prompt_tokens = 0; }},
        BadSample{"prompt_tokens", Code::kOutOfRange, [](Sample& s) { s.prompt_tokens = 999; }},
        BadSample{"temperature", Code::kOutOfRange, [](Sample& s) { s.temperature = 0; }},
        BadSample{"temperature", Code::kOutOfRange,
                  [](Sample& s) { s.temperature = std::numeric_limits<float>::infinity(); }},
        BadSample{"temperature", Code::kOutOfRange,
                  [](Sample& s) { s.temperature = std::numeric_limits<float>::quiet_NaN(); }},
        BadSample{"logprobs", Code::kInvalidArgument, [](Sample& s) { s.logprobs.push_back(0); }},
        BadSample{"versions", Code::kInvalidArgument, [](Sample& s) { s.versions.clear(); }},
        BadSample{"loss_mask", Code::kInvalidArgument, [](Sample& s) { s.loss_mask.pop_back(); }},
        BadSample{"loss_mask", Code::kOutOfRange, [](Sample& s) { s.loss_mask[0] = 2; }},
        BadSample{"purpose", Code::kInvalidArgument, [](Sample& s) { s.purpose = Purpose::kEval; }},
        BadSample{"engine.max_model_len", Code::kOutOfRange, [](Sample& s) { make_long(s, 130); }},
        BadSample{"engine.max_model_len", Code::kOutOfRange,
                  [](Sample& s) { make_long(s, 514); }}));

TEST(Trainer, ALongerSampleNamesTheTokenBudget) {
  TrainerOptions o = usual_options();
  o.max_tokens = 40;
  o.max_sequence = 60;
  TrainRig rig({}, o);
  Sample s;
  make_long(s, 42);
  const TrainSample one{&s, 1.0, {}, {}};
  const Error e = expect_error(Code::kOutOfRange, [&] { rig.trainer->step({&one, 1}); });
  EXPECT_EQ(e.key, "trainer.max_tokens_per_device");
  EXPECT_TRUE(contains(e.message, "42") && contains(e.message, "41"));
}

TEST(Trainer, ArraysBesideTheSampleAreChecked) {
  TrainerOptions o = usual_options();
  o.kl_in_loss = true;
  TrainRig rig({}, o);
  const Sample s = make_sample({1, 2, 3, 4}, 2, 0, 0);
  const std::vector<float> one(1), two(2);
  const auto step = [&](TrainSample t) { rig.trainer->step({&t, 1}); };
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] {
                           step({&s, 1.0, {}, {}});
                         })
                .key,
            "model.reference_path");
  EXPECT_EQ(expect_error(Code::kInvalidArgument,
                         [&] {
                           step({&s, 1.0, one, two});
                         })
                .key,
            "token_advantages");
  EXPECT_EQ(expect_error(Code::kInvalidArgument,
                         [&] {
                           step({&s, 1.0, two, one});
                         })
                .key,
            "ref_logprobs");
  expect_error(Code::kInvalidArgument, [&] { step({nullptr, 1.0, {}, {}}); });
}

TEST(Trainer, LogprobsAreOfItsOwnModels) {
  TrainRig rig({}, usual_options()), other({}, usual_options());
  const Sample s = make_sample({1, 2, 3, 4}, 2, 0, 0);
  const Sample* in = &s;
  std::vector<float> two(2), three(3);
  std::span<float> out(two), wrong(three);
  expect_error(Code::kInvalidArgument, [&] {
    rig.trainer->logprobs(other.model(), {&in, 1}, {&out, 1});
  });
  expect_error(Code::kInvalidArgument, [&] {
    rig.trainer->logprobs(rig.model(), {&in, 1}, {&wrong, 1});
  });
  expect_error(Code::kInvalidArgument, [&] { rig.trainer->logprobs(rig.model(), {&in, 1}, {}); });
  const std::array<std::span<float>, 2> twice = {out, out};
  expect_error(Code::kInvalidArgument, [&] {
    rig.trainer->logprobs(rig.model(), {&in, 1}, twice);
  });
}

TEST(Trainer, AReferenceOfAnotherShapeIsRefused) {
  TinyModel llama(TinyModel::fixture("llama")), qwen(TinyModel::fixture("qwen2"));
  const TrainerSizes sizes =
      Trainer::plan(llama.model->config(), llama.model->kv_shape(), usual_options(), 1);
  const Arena workspace("workspace", sizes.workspace);
  const Error e = expect_error(Code::kIncompatible, [&] {
    Trainer(*llama.model, qwen.model.get(), usual_options(), workspace.data());
  });
  EXPECT_EQ(e.key, "model.reference_path");
}

TEST(TrainerOptions, BadValuesAreNamed) {
  const auto key_of = [](auto change) {
    TrainerOptions o;
    change(o);
    return expect_error(Code::kOutOfRange, [&] { validate(o); }).key;
  };
  using O = TrainerOptions;
  EXPECT_EQ(key_of([](O& o) { o.max_tokens = 0; }), "trainer.max_tokens_per_device");
  EXPECT_EQ(key_of([](O& o) { o.max_sequence = -1; }), "engine.max_model_len");
  EXPECT_EQ(key_of([](O& o) { o.logprob_chunk_tokens = -1; }), "trainer.logprob_chunk_tokens");
  EXPECT_EQ(key_of([](O& o) { o.batch.num_minibatches = 0; }), "trainer.num_minibatches");
  EXPECT_EQ(key_of([](O& o) { o.epochs = 0; }), "trainer.epochs");
  EXPECT_EQ(key_of([](O& o) { o.entropy_coef = NAN; }), "algo.entropy_coef");
  EXPECT_EQ(key_of([](O& o) { o.kl_coef = -1; }), "algo.kl.coef");
  EXPECT_EQ(key_of([](O& o) { o.grad_clip = INFINITY; }), "optimizer.grad_clip");
  EXPECT_EQ(key_of([](O& o) { o.policy_loss.clip_low = 2; }), "algo.clip_low");
  EXPECT_EQ(key_of([](O& o) { o.adamw.beta1 = 1; }), "optimizer.beta1");
  EXPECT_EQ(key_of([](O& o) { o.loss_agg = LossAgg::kSeqMeanTokenSumNorm; }),
            "algo.loss_scale_factor");
}

TEST(TrainerOptions, SizesDoNotChangeBetweenSteps) {
  TrainRig rig({}, usual_options());
  TrainerOptions o = usual_options();
  o.kl_coef = 0.1;
  o.schedule.lr = 5e-4;
  rig.trainer->set_options(o);
  EXPECT_EQ(rig.trainer->options().schedule.lr, 5e-4);
  const auto key_of = [&](auto change) {
    TrainerOptions other = o;
    change(other);
    return expect_error(Code::kNotChangeable, [&] { rig.trainer->set_options(other); }).key;
  };
  using O = TrainerOptions;
  EXPECT_EQ(key_of([](O& o) { o.max_tokens = 100; }), "trainer.max_tokens_per_device");
  EXPECT_EQ(key_of([](O& o) { o.max_sequence = 100; }), "engine.max_model_len");
  EXPECT_EQ(key_of([](O& o) { o.logprob_chunk_tokens = 1; }), "trainer.logprob_chunk_tokens");
  EXPECT_EQ(key_of([](O& o) { o.batch.micro_batch_size = 2; }), o.keys.micro_batch_size);
  EXPECT_EQ(key_of([](O& o) { o.batch.packed = false; }), "trainer.sequence_packing");
  EXPECT_EQ(key_of([](O& o) { o.batch.seq_len = 64; }), "trainer.seq_len");
  EXPECT_EQ(key_of([](O& o) { o.batch.pad_to = 8; }), "trainer.pad_to_multiple_of");
  EXPECT_EQ(key_of([](O& o) { o.batch.oversize_alone = true; }), "trainer.oversize");
  EXPECT_EQ(key_of([](O& o) { o.batch.forward_max_tokens = 64; }), o.keys.forward_max_tokens);
  EXPECT_EQ(key_of([](O& o) { o.batch.reference_max_tokens = 64; }),
            "reference.forward_max_tokens_per_device");
  o.batch.step_samples = 8;  // of the memory plan: no option changes it
  expect_error(Code::kInternal, [&] { rig.trainer->set_options(o); });
}

}  // namespace
}  // namespace rl::testing
