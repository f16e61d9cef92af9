// Steps at the edge: fewer samples than minibatches, gradients that overflow, samples that nobody
// needs to score.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "critic_rig.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions options_of(Objective objective) {
  TrainerOptions o;
  o.objective = objective;
  o.max_tokens = 64;
  o.schedule.lr = 1e-3;
  return o;
}

// Two pairs for five minibatches: those without a pair are no optimizer steps.
TEST(EdgeSteps, MinibatchesWithoutPairsAreLeftOut) {
  const std::vector<Sample> samples = {
      make_sample({1, 2, 3, 4}, 2, 0, 0), make_sample({1, 2, 5}, 2, 0, 1),
      make_sample({6, 7, 8}, 1, 1, 0), make_sample({6, 9}, 1, 1, 1)};
  const std::vector<float> reference(2, -5.0f);
  for (const Objective objective : {Objective::kRewardModel, Objective::kDpo}) {
    TrainerOptions o = options_of(objective);
    o.batch.num_minibatches = 5;
    TrainRig rig({}, o);
    std::vector<TrainSample> batch;
    for (const Sample& s : samples) {
      const auto tokens = static_cast<size_t>(s.generated());
      batch.push_back({&s, 0, {}, std::span(reference).first(tokens)});
    }
    const TrainMetrics m = rig.trainer->step(batch);
    EXPECT_EQ(rig.trainer->planned_steps(), 2);
    EXPECT_EQ(m.minibatches, 2);
    EXPECT_EQ(m.micro_batches, 2);
    EXPECT_EQ(m.optimizer_steps, 2);
    EXPECT_EQ(m.preference.pairs, 2);
    EXPECT_EQ(m.samples, 4);
  }
}

TEST(EdgeSteps, MinibatchesWithoutSamplesAreLeftOut) {
  TrainerOptions o = options_of(Objective::kRl);
  o.batch.num_minibatches = 5;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(2, rig.model().config().vocab, 4);
  for (Sample& s : samples) std::ranges::fill(s.loss_mask, 1);
  store_logprobs(rig, samples);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(rig.trainer->planned_steps(), 2);
  EXPECT_EQ(m.minibatches, 2);
  EXPECT_EQ(m.optimizer_steps, 2);
  CriticOptions critic;
  critic.max_tokens = 64;
  critic.batch.num_minibatches = 5;
  CriticRig value_rig({}, critic);
  const CriticMetrics v = value_rig.critic->step(CriticData(value_rig, samples, 2).batch);
  EXPECT_EQ(v.minibatches, 2);
  EXPECT_EQ(v.optimizer_steps, 2);
  EXPECT_EQ(v.skipped_steps, 0);
}

// The loss is finite, in double; gradients of weights are beyond fp32.
TEST(EdgeSteps, AnInfiniteNormSkipsTheStepAndBlamesNobody) {
  TrainerOptions o = options_of(Objective::kRl);
  o.loss_agg = LossAgg::kTokenSum;
  TrainRig rig({}, o);
  std::vector<Sample> samples = random_samples(4, rig.model().config().vocab, 4);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  for (TrainSample& s : batch) s.advantage = 3e38;
  const std::vector<float> before = rig.masters();
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_LT(m.loss, -1e38);
  EXPECT_TRUE(std::isfinite(m.loss));
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.optimizer_steps, 0);
  EXPECT_EQ(m.grad_norm, 0);
  EXPECT_TRUE(m.non_finite_samples.empty());
  EXPECT_TRUE(same_bits(rig.masters(), before));
  EXPECT_EQ(rig.model().version(), 0u);
  EXPECT_EQ(rig.trainer->step(with_advantages(samples)).optimizer_steps, 1);
}

// Neither the policy at the beginning of the step nor the reference is asked for what carries no
// loss, whatever weights it is of.
TEST(EdgeSteps, SamplesWithoutLossAreNotScored) {
  TrainerOptions o = options_of(Objective::kRl);
  o.correction.decoupled = true;
  o.kl_in_loss = true;
  o.kl_coef = 0.5;
  TrainRig with({.with_reference = true}, o), without({.with_reference = true}, o);
  std::vector<Sample> samples = random_samples(8, with.model().config().vocab, 4);
  store_logprobs(with, samples);
  for (const size_t i : {2, 5}) {
    std::ranges::fill(samples[i].loss_mask, 0);
    std::ranges::fill(samples[i].versions, kUnknownVersion);
    std::ranges::fill(samples[i].logprobs, NAN);
  }
  std::vector<TrainSample> all = with_advantages(samples), some = all;
  some.erase(some.begin() + 5);
  some.erase(some.begin() + 2);
  const TrainMetrics m = with.trainer->step(all), n = without.trainer->step(some);
  EXPECT_EQ(m.proximal_samples, 0);
  EXPECT_EQ(m.samples, 8);
  EXPECT_EQ(n.samples, 6);
  EXPECT_EQ(m.rows_not_scored, n.rows_not_scored);
  EXPECT_EQ(m.loss, n.loss);
  EXPECT_TRUE(same_bits(with.masters(), without.masters()));
}

}  // namespace
}  // namespace rl::testing
