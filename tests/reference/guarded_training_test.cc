// Training and sampling on a device whose memory the host cannot touch: steps of every family, of
// roles and of frozen parameters, and engines that swap, filter and measure prompts have the bits
// of the reference device.
#include <gtest/gtest.h>

#include "device_steps.h"
#include "guarded_device.h"
#include "train/critic_rig.h"
#include "train/engine_samples.h"

namespace rl::testing {
namespace {

void expect_same(const Trained& got, const Trained& want) {
  EXPECT_EQ(got.metrics.optimizer_steps, 1);
  EXPECT_EQ(got.metrics.loss, want.metrics.loss);
  EXPECT_EQ(got.metrics.grad_norm, want.metrics.grad_norm);
  EXPECT_TRUE(same_bits(got.logprobs, want.logprobs));
  EXPECT_TRUE(same_bits(got.gradients, want.gradients));
  EXPECT_TRUE(same_bits(got.update, want.update));
}

class GuardedTraining : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Families, GuardedTraining,
                         ::testing::Values("llama", "llama_bf16", "smollm2", "qwen2", "qwen3",
                                           "mistral", "gemma3"),
                         case_name);

TEST_P(GuardedTraining, AStepHasTheBitsOfTheReference) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    SCOPED_TRACE(dtype_name(dtype));
    expect_same(train(rig_on(guarded_device(), GetParam(), dtype)),
                train(rig_on(reference_device(), GetParam(), dtype)));
  }
}

TEST_P(GuardedTraining, SampledLogprobsEqualTheTrainers) {
  TrainRig rig = rig_on(guarded_device(), GetParam());
  const std::vector<Sample> samples = sample_with_engine(rig.model(), {3, 7, 0.7f});
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
  EXPECT_EQ(m.optimizer_steps, 1);
}

TEST(GuardedTrainingParts, FrozenParametersAndRowsOfATeacherHaveTheBitsOfTheReference) {
  const TrainableRule rule{{"*.k_proj.weight", "*.up_proj.weight", "*input_layernorm.weight"}, {}};
  expect_same(train(rig_on(guarded_device(), "llama", Dtype::kF32, rule)),
              train(rig_on(reference_device(), "llama", Dtype::kF32, rule)));
  expect_same(distill_on_rows(guarded_device()), distill_on_rows(reference_device()));
}

TEST(GuardedTrainingParts, ALossThatIsNotFiniteMarksTheHeldGradients) {
  TrainRig rig = rig_on(guarded_device(), "llama");
  std::vector<Sample> samples = random_samples(4, rig.model().config().vocab, 3);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[2].advantage = std::numeric_limits<double>::quiet_NaN();
  rig.trainer->begin_gradients(batch, {});
  while (rig.trainer->next()) {
  }
  EXPECT_TRUE(std::isnan(rig.gradients().front()));
}

TEST(GuardedTrainingParts, ACriticHasTheBitsOfTheReference) {
  const auto values = [](const Device& device) {
    CriticRig rig({.device = device}, {});
    rig.fill_head(3);
    std::vector<float> out;
    for (const auto& some : rig.values(random_samples(4, rig.model().config().vocab, 5)))
      out.insert(out.end(), some.begin(), some.end());
    return out;
  };
  EXPECT_TRUE(same_bits(values(guarded_device()), values(reference_device())));
}

}  // namespace
}  // namespace rl::testing
