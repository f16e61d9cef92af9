// A training step in parts, one micro-batch at a time: the bits are those of a whole step, whatever
// the trainer computes between the parts, and whichever step was given up before.
#include <gtest/gtest.h>

#include <random>

#include "train_rig.h"

namespace rl::testing {
namespace {

// Two epochs of two minibatches, each of several micro-batches.
TrainerOptions options_of(Objective objective) {
  TrainerOptions o;
  o.objective = objective;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.batch.num_minibatches = 2;
  o.epochs = 2;
  return o;
}

struct Step {
  TrainMetrics metrics;
  std::vector<float> gradients, masters;
};

void expect_same(const Step& a, const Step& b) {
  EXPECT_EQ(a.metrics.loss, b.metrics.loss);
  EXPECT_EQ(a.metrics.grad_norm, b.metrics.grad_norm);
  EXPECT_EQ(a.metrics.tokens, b.metrics.tokens);
  EXPECT_EQ(a.metrics.micro_batches, b.metrics.micro_batches);
  EXPECT_EQ(a.metrics.optimizer_steps, b.metrics.optimizer_steps);
  EXPECT_EQ(a.metrics.logprob_compared_tokens, b.metrics.logprob_compared_tokens);
  EXPECT_TRUE(same_bits(a.gradients, b.gradients));
  EXPECT_TRUE(same_bits(a.masters, b.masters));
}

Step whole_step(TrainRig& rig, const std::vector<Sample>& samples) {
  const TrainMetrics metrics = rig.trainer->step(with_advantages(samples));
  return {metrics, rig.gradients(), rig.masters()};
}

// Calls between(done) after each micro-batch.
template <typename Between>
Step step_in_parts(TrainRig& rig, const std::vector<Sample>& samples, const Between& between) {
  const std::vector<TrainSample> batch = with_advantages(samples);
  rig.trainer->begin(batch);
  int64_t done = 0;
  while (rig.trainer->next()) between(++done);
  TrainMetrics metrics = rig.trainer->finish();
  rig.trainer->publish(metrics);
  EXPECT_EQ(done, metrics.micro_batches);
  return {metrics, rig.gradients(), rig.masters()};
}

class StepParts : public ::testing::TestWithParam<Objective> {
 protected:
  StepParts() {
    if (GetParam() != Objective::kRewardModel) return;
    for (TrainRig* rig : {&whole_, &parts_}) fill_head(rig->model(), 3);
  }
  // A forward of the trainer that is no part of the step.
  void compute_something(const Sample& sample) {
    const Sample* one[] = {&sample};
    std::vector<float> out(static_cast<size_t>(sample.generated()));
    const std::span<float> spans[] = {out};
    if (GetParam() == Objective::kRewardModel)
      parts_.trainer->scores(one, std::span(out).first(1));
    else
      parts_.trainer->logprobs(parts_.model(), one, spans);
  }

  TrainRig whole_{{.threads = 2}, options_of(GetParam())},
      parts_{{.threads = 2}, options_of(GetParam())};
  const std::vector<Sample> samples_ = samples_for(whole_, GetParam(), 11);
};
INSTANTIATE_TEST_SUITE_P(Objectives, StepParts,
                         ::testing::Values(Objective::kRl, Objective::kSft,
                                           Objective::kRewardModel),
                         [](const auto& info) { return std::string(objective_name(info.param)); });

TEST_P(StepParts, GiveTheBitsOfAWholeStep) {
  const Step want = whole_step(whole_, samples_);
  EXPECT_EQ(want.metrics.optimizer_steps, 4);
  EXPECT_GT(want.metrics.micro_batches, 2 * want.metrics.minibatches);
  expect_same(step_in_parts(parts_, samples_, [](int64_t) {}), want);
}

// It uses the workspace, and packs the weights of an optimizer step before its minibatch would.
TEST_P(StepParts, AForwardBetweenThemChangesNoBit) {
  const Step want = whole_step(whole_, samples_);
  expect_same(step_in_parts(parts_, samples_, [&](int64_t) { compute_something(samples_[5]); }),
              want);
}

TEST_P(StepParts, AStepGivenUpBeforeItsFirstUpdateLeavesNothingBehind) {
  const Step want = whole_step(whole_, samples_);
  const std::vector<float> before = parts_.masters();
  const std::vector<Sample> others = samples_for(parts_, GetParam(), 5);
  const std::vector<TrainSample> given_up = with_advantages(others);
  parts_.trainer->begin(given_up);
  ASSERT_TRUE(parts_.trainer->next());
  ASSERT_TRUE(same_bits(parts_.masters(), before));
  expect_same(step_in_parts(parts_, samples_, [](int64_t) {}), want);
}

}  // namespace
}  // namespace rl::testing
