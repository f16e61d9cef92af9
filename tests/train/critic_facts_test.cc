// What a step of a critic says about itself, exactly: times, counts, means and the samples that it
// names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "critic_rig.h"
#include "ticking_clock.h"

namespace rl::testing {
namespace {

int64_t num_loss_tokens(std::span<const Sample> samples) {
  int64_t sum = 0;
  for (const Sample& s : samples) sum += std::ranges::count(s.loss_mask, 1);
  return sum;
}

TEST(CriticFacts, TimesAreOfItsPhases) {
  CriticOptions o;
  o.max_tokens = 64;
  o.batch.num_minibatches = 2;
  CriticRig rig({}, o);
  const std::vector<Sample> samples = random_samples(12, rig.model().config().vocab, 7);
  const CriticData data(rig, samples, 2);
  const TickingClock clock;
  const Arena workspace("test critic", rig.sizes.workspace);
  Critic critic(rig.model(), o, workspace.data(), {.clock = &clock});
  const CriticMetrics m = critic.step(data.batch);
  ASSERT_GT(m.micro_batches, 3);
  EXPECT_EQ(m.forward_ns, m.micro_batches);
  EXPECT_EQ(m.head_ns, m.micro_batches);
  EXPECT_EQ(m.backward_ns, m.micro_batches);
  EXPECT_EQ(m.optimizer_ns, 2);
  EXPECT_EQ(m.total_ns, 2 * (3 * m.micro_batches + 2) + 1);
}

CriticOptions critic_options() {
  CriticOptions o;
  o.max_tokens = 64;
  o.value_clip = 0.2;
  o.schedule.lr = 1e-3;
  return o;
}

TEST(CriticFacts, CountsAreOfEveryEpochAndMicroBatch) {
  CriticOptions o = critic_options();
  o.epochs = 2;
  o.batch.num_minibatches = 2;
  o.batch.micro_batch_size = 3;
  CriticRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 7);
  for (Sample& s : samples) s.loss_mask.front() = 1;
  const CriticMetrics m = rig.critic->step(CriticData(rig, samples, 2).batch);
  EXPECT_EQ(m.loss_tokens, 2 * num_loss_tokens(samples));
  EXPECT_EQ(m.minibatches, 4);
  EXPECT_EQ(m.micro_batches, 8) << "three samples and one, four times";
  EXPECT_EQ(m.optimizer_steps, 4);
  EXPECT_EQ(m.lr, 1e-3);
  EXPECT_EQ(rig.critic->counters().optimizer_steps, 4);
}

TEST(CriticFacts, ASampleIsNamedOnceAnEpochHoweverManyOfItsTokensAreBad) {
  CriticOptions o = critic_options();
  o.epochs = 2;
  CriticRig rig({}, o);
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 7);
  std::ranges::fill(samples[6].loss_mask, 1);
  CriticData data(rig, samples, 2);
  for (float& v : data.returns[6]) v = INFINITY;
  const std::vector<float> before = rig.masters();
  const CriticMetrics m = rig.critic->step(data.batch);
  EXPECT_EQ(m.non_finite_samples, (std::vector<uint64_t>{samples[6].id, samples[6].id}));
  EXPECT_EQ(m.skipped_steps, 2);
  EXPECT_EQ(m.optimizer_steps, 0);
  EXPECT_EQ(m.loss, 0);
  EXPECT_EQ(m.value, 0);
  EXPECT_EQ(m.clip_fraction, 0);
  EXPECT_EQ(m.grad_norm, 0);
  EXPECT_EQ(m.lr, 0);
  EXPECT_EQ(m.loss_tokens, 0) << "of minibatches with a finite loss";
  EXPECT_TRUE(same_bits(rig.masters(), before));
  EXPECT_EQ(rig.model().version(), 0u);
}

// A head of zeros: every value is 0, the loss of a token R^2 / 2 and its gradient -R.
TEST(CriticFacts, LossAndMeansAreThoseOfTheTokens) {
  CriticOptions o = critic_options();
  o.value_clip = 0.5;
  o.batch.num_minibatches = 2;
  o.schedule.lr = 0;
  CriticRig rig({}, o);
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 2; ++i) samples.push_back(make_sample({1, 2, 3}, 1, i, 0));
  const std::vector<float> old_values = {0, 0}, returns = {1, 2}, others = {3, 4};
  const CriticMetrics m = rig.critic->step(std::vector<CriticSample>{
      {&samples[1], old_values, others}, {&samples[0], old_values, returns}});
  EXPECT_EQ(m.loss, ((1 + 4) / 4.0 + (9 + 16) / 4.0) / 2) << "the mean of two minibatches";
  EXPECT_EQ(m.value, 0);
  EXPECT_EQ(m.clip_fraction, 0);
  EXPECT_EQ(m.loss_tokens, 4);
  // Old values 1 above the values are clipped to 0.5: (0.5 - R)^2 is larger where R < 0.
  const std::vector<float> high = {1, 1}, low = {-1, 1};
  const CriticMetrics n = rig.critic->step(std::vector<CriticSample>{{&samples[0], high, low}});
  EXPECT_EQ(n.clip_fraction, 0.5);
  EXPECT_EQ(n.loss, (1.5 * 1.5 / 2 + 1.0 / 2) / 2);
}

// Minibatches are of samples in the order of training, whatever order they came in.
TEST(CriticFacts, TheOrderOfArrivalLeavesTheBits) {
  CriticOptions o = critic_options();
  o.batch.num_minibatches = 3;
  CriticRig in_order({.model = "llama_value"}, o), reversed({.model = "llama_value"}, o);
  const std::vector<Sample> samples = random_samples(9, in_order.model().config().vocab, 7);
  const CriticData data(in_order, samples, 2);
  std::vector<CriticSample> backwards = data.batch;
  std::ranges::reverse(backwards);
  const CriticMetrics m = in_order.critic->step(data.batch), n = reversed.critic->step(backwards);
  EXPECT_EQ(m.optimizer_steps, 3);
  EXPECT_EQ(m.loss, n.loss);
  EXPECT_TRUE(same_bits(in_order.masters(), reversed.masters()));
}

}  // namespace
}  // namespace rl::testing
