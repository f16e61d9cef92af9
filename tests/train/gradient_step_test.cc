// A training step in two halves: on a whole batch it has the bits of a step; gradients of parts add
// up to those of the whole, given its counts; and what cannot be split is refused by name.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions options_of(Objective objective = Objective::kRl) {
  TrainerOptions o;
  o.objective = objective;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  return o;
}

// The first half of a step.
void compute(Trainer& trainer, const std::vector<TrainSample>& batch,
             const LossDenominators& whole = {}) {
  trainer.begin_gradients(batch, whole);
  while (trainer.next()) {
  }
}

TrainMetrics update(Trainer& trainer) {
  trainer.apply();
  TrainMetrics metrics = trainer.finish();
  trainer.publish(metrics);
  return metrics;
}

LossDenominators counts_of(const std::vector<Sample>& samples) {
  LossDenominators counts;
  for (const Sample& s : samples) {
    const auto tokens = std::ranges::count(s.loss_mask, 1);
    counts.num_tokens += static_cast<double>(tokens);
    counts.num_sequences += tokens > 0;
  }
  return counts;
}

std::vector<Sample> samples_of(TrainRig& rig, int count = 8) {
  std::vector<Sample> samples = random_samples(count, rig.model().config().vocab, 3);
  store_logprobs(rig, samples);
  return samples;
}

TEST(GradientStep, TwoHalvesHaveTheBitsOfAStep) {
  for (const Objective objective : {Objective::kRl, Objective::kSft}) {
    const TrainerOptions o = options_of(objective);
    TrainRig whole({}, o), halves({}, o);
    const std::vector<Sample> samples = samples_of(whole);
    const std::vector<TrainSample> batch = with_advantages(samples);
    for (int step = 0; step < 3; ++step) {
      const TrainMetrics a = whole.trainer->step(batch);
      compute(*halves.trainer, batch);
      const std::vector<float> before = halves.masters(), gradients = halves.gradients();
      EXPECT_TRUE(same_bits(gradients, whole.gradients()));
      const TrainMetrics b = update(*halves.trainer);
      EXPECT_FALSE(same_bits(before, halves.masters()));
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(a.grad_norm, b.grad_norm);
      EXPECT_EQ(a.lr, b.lr);
      EXPECT_EQ(a.optimizer_steps, b.optimizer_steps);
      EXPECT_EQ(a.loss_tokens, b.loss_tokens);
      EXPECT_TRUE(same_bits(whole.masters(), halves.masters()));
      EXPECT_EQ(whole.model().version(), halves.model().version());
    }
  }
}

// Sums of floats in another order: 1e-6 is some ten roundings of fp32.
TEST(GradientStep, GradientsOfPartsAddUpToThoseOfTheWhole) {
  for (const LossAgg agg : {LossAgg::kTokenMean, LossAgg::kTokenSum, LossAgg::kSeqMeanTokenSum,
                            LossAgg::kSeqMeanTokenMean, LossAgg::kSeqMeanTokenSumNorm}) {
    SCOPED_TRACE(std::string(loss_agg_name(agg)));
    TrainerOptions o = options_of();
    o.loss_agg = agg;
    o.loss_scale_factor = 30;
    TrainRig whole({}, o), part({}, o);
    const std::vector<Sample> samples = samples_of(whole, 12);
    const std::vector<TrainSample> batch = with_advantages(samples);
    compute(*whole.trainer, batch);
    std::vector<float> sum(whole.gradients().size());
    double loss = 0;
    for (const auto& [first, end] : {std::pair(0, 4), std::pair(4, 12), std::pair(12, 12)}) {
      compute(*part.trainer, {batch.begin() + first, batch.begin() + end}, counts_of(samples));
      const std::vector<float> gradients = part.gradients();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[i];
      std::vector<float> zero(sum.size());
      EXPECT_EQ(same_bits(gradients, zero), first == end);
      loss += part.trainer->finish().loss;  // without an update
    }
    EXPECT_LE(relative_l2(sum, whole.gradients()), 1e-6);
    whole.trainer->held_gradients().write(sum);
    const TrainMetrics metrics = update(*whole.trainer);
    EXPECT_NEAR(loss, metrics.loss, 1e-9 * std::max(1.0, std::abs(metrics.loss)));
  }
}

TEST(GradientStep, AppliesWhatTheCallerMadeOfTheGradients) {
  TrainRig a({}, options_of()), b({}, options_of());
  const std::vector<Sample> samples = samples_of(a);
  const std::vector<TrainSample> batch = with_advantages(samples);
  compute(*a.trainer, batch);
  compute(*b.trainer, batch);
  for (float& g : b.trainer->held_gradients().in_host()) g *= 2;
  EXPECT_DOUBLE_EQ(update(*b.trainer).grad_norm, 2 * update(*a.trainer).grad_norm);
}

TEST(GradientStep, ALossThatIsNotFiniteIsSkippedByWhoeverAddsItsGradients) {
  TrainRig rig({}, options_of()), other({}, options_of());
  std::vector<Sample> samples = samples_of(rig);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[2].advantage = std::numeric_limits<double>::quiet_NaN();
  compute(*rig.trainer, batch);
  const float bad = rig.gradients().front();
  EXPECT_TRUE(std::isnan(bad));
  batch[2].advantage = 1;
  compute(*other.trainer, batch);
  other.trainer->held_gradients().in_host()[0] += bad;
  for (TrainRig* each : {&rig, &other}) {
    const std::vector<float> before = each->masters();
    const TrainMetrics metrics = update(*each->trainer);
    EXPECT_EQ(metrics.skipped_steps, 1);
    EXPECT_EQ(metrics.optimizer_steps, 0);
    EXPECT_EQ(each->trainer->counters().skipped_steps, 1);
    EXPECT_TRUE(same_bits(before, each->masters()));
    EXPECT_EQ(metrics.non_finite_samples.size(), each == &rig ? 1u : 0u);
  }
}

TEST(GradientStep, WithoutLossOnlyAPartOfALargerBatchIsApplied) {
  TrainRig rig({}, options_of());
  std::vector<Sample> samples = samples_of(rig);
  for (Sample& s : samples) std::ranges::fill(s.loss_mask, uint8_t{0});
  const std::vector<TrainSample> batch = with_advantages(samples);
  compute(*rig.trainer, batch);
  EXPECT_EQ(update(*rig.trainer).optimizer_steps, 0);
  compute(*rig.trainer, batch, {.num_tokens = 100, .num_sequences = 8});
  EXPECT_EQ(update(*rig.trainer).optimizer_steps, 1);
}

TEST(GradientStep, MoreThanOneOptimizerStepIsRefused) {
  const auto refused = [](const char* key, auto&& spoil) {
    TrainerOptions o = options_of();
    spoil(o);
    TrainRig rig({}, o);
    const std::vector<Sample> samples = samples_of(rig);
    const std::vector<TrainSample> batch = with_advantages(samples);
    EXPECT_EQ(expect_error(Code::kConflict, [&] { rig.trainer->begin_gradients(batch, {}); }).key,
              key);
  };
  refused("trainer.epochs", [](TrainerOptions& o) { o.epochs = 2; });
  refused("trainer.num_minibatches", [](TrainerOptions& o) { o.batch.num_minibatches = 2; });
  refused("trainer.global_batch_size", [](TrainerOptions& o) { o.batch.global_batch_size = 7; });
  TrainerOptions whole = options_of();
  whole.batch.global_batch_size = 8;
  TrainRig rig({}, whole);
  const std::vector<Sample> samples = samples_of(rig);
  compute(*rig.trainer, with_advantages(samples));
  EXPECT_EQ(rig.trainer->planned_steps(), 1);
}

TEST(GradientStep, APartHasNoMoreThanTheWhole) {
  TrainRig rig({}, options_of());
  const std::vector<Sample> samples = samples_of(rig);
  const std::vector<TrainSample> batch = with_advantages(samples);
  LossDenominators counts = counts_of(samples);
  compute(*rig.trainer, batch, counts);
  const auto refused = [&](const char* key, const LossDenominators& whole) {
    EXPECT_EQ(
        expect_error(Code::kOutOfRange, [&] { rig.trainer->begin_gradients(batch, whole); }).key,
        key);
  };
  --counts.num_tokens;
  refused("step.total_tokens", counts);
  ++counts.num_tokens;
  --counts.num_sequences;
  refused("step.total_sequences", counts);
}

TEST(GradientStep, TheCountThatTheLossDividesByIsGiven) {
  const auto begin = [](Objective objective, LossAgg agg, const LossDenominators& whole) {
    TrainerOptions o = options_of(objective);
    o.loss_agg = agg;
    o.loss_scale_factor = 8;
    TrainRig rig({}, o);
    const std::vector<Sample> samples = samples_of(rig);
    rig.trainer->begin_gradients(with_advantages(samples), whole);
  };
  const LossDenominators tokens{.num_tokens = 1000}, sequences{.num_sequences = 100};
  for (const Objective objective : {Objective::kRl, Objective::kSft}) {
    EXPECT_EQ(expect_error(Code::kInvalidArgument,
                           [&] { begin(objective, LossAgg::kTokenMean, sequences); })
                  .key,
              "step.total_tokens");
    for (const LossAgg agg :
         {LossAgg::kSeqMeanTokenSum, LossAgg::kSeqMeanTokenMean, LossAgg::kSeqMeanTokenSumNorm}) {
      EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { begin(objective, agg, tokens); }).key,
                "step.total_sequences");
      begin(objective, agg, sequences);
    }
    begin(objective, LossAgg::kTokenMean, tokens);
    begin(objective, LossAgg::kTokenSum, tokens);
    begin(objective, LossAgg::kTokenSum, sequences);
  }
}

TEST(GradientStep, WhatDependsOnTheWholeBatchIsRefusedForParts) {
  const auto refused = [](const char* key, auto&& spoil) {
    TrainerOptions o = options_of();
    spoil(o);
    TrainRig rig({}, o);
    const std::vector<Sample> samples = samples_of(rig);
    const std::vector<TrainSample> batch = with_advantages(samples);
    const LossDenominators whole{.num_tokens = 1000, .num_sequences = 100};
    EXPECT_EQ(
        expect_error(Code::kUnsupported, [&] { rig.trainer->begin_gradients(batch, whole); }).key,
        key);
  };
  refused("algo.policy_loss", [](TrainerOptions& o) {
    for (const PolicyLoss kind : {PolicyLoss::kClipCov, PolicyLoss::kKlCov}) {
      if (needs_selection(kind)) o.policy_loss.kind = kind;
    }
  });
  refused("algo.correction.batch_normalize",
          [](TrainerOptions& o) { o.correction.batch_normalize = true; });
}

}  // namespace
}  // namespace rl::testing
