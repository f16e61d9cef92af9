// Trainers on the emulated GPU: what is sampled has the log-probs that are trained, bit for bit; a
// step agrees with the reference device.
#include <gtest/gtest.h>

#include "cuda_models/emulated_gpu.h"
#include "reference/device_steps.h"
#include "train/engine_samples.h"

namespace rl::testing {
namespace {

class CudaSteps : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { emulated::restart(0); }
};

INSTANTIATE_TEST_SUITE_P(Families, CudaSteps,
                         ::testing::Values("llama", "llama_bf16", "smollm2", "qwen2", "qwen3",
                                           "mistral", "gemma3"),
                         case_name);

// Tolerances as between the reference device and the CPU (tests/reference/device_training_test.cc).
TEST_P(CudaSteps, AStepMatchesTheReference) {
  const Trained got = train(rig_on(emulated_gpu(), GetParam())),
                want = train(rig_on(reference_device(), GetParam()));
  EXPECT_EQ(got.metrics.optimizer_steps, 1);
  EXPECT_EQ(got.metrics.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(got.metrics.loss_tokens, want.metrics.loss_tokens);
  EXPECT_LE(largest_difference(got.logprobs, want.logprobs), 4e-5);
  EXPECT_NEAR(got.metrics.loss, want.metrics.loss, 4e-6);
  EXPECT_LE(relative_l2(got.gradients, want.gradients), 1e-4);
  EXPECT_LE(relative_l2(got.update, want.update), 0.05);
}

TEST_P(CudaSteps, SampledLogprobsEqualTheTrainers) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    TrainRig rig = rig_on(emulated_gpu(), GetParam(), dtype);
    const std::vector<Sample> samples = sample_with_engine(rig.model(), {3, 7, 0.7f});
    const TrainMetrics m = rig.trainer->step(with_advantages(samples));
    EXPECT_EQ(m.logprob_max_abs_diff, 0.0) << dtype_name(dtype);
    EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
    EXPECT_GT(m.loss_tokens, 4);
    EXPECT_EQ(m.ratio_max, 1.0);
    EXPECT_EQ(m.optimizer_steps, 1);
  }
}

}  // namespace
}  // namespace rl::testing
