// Rollout and training on the reference device: one training step agrees with the CPU's, and what
// its engine samples is what its trainer computes, bit for bit.
#include <gtest/gtest.h>

#include "../context/context_rig.h"
#include "device_steps.h"
#include "model_pass.h"
#include "train/engine_samples.h"

namespace rl::testing {
namespace {

class ReferenceTraining : public ::testing::TestWithParam<std::string> {};
class ReferenceEngine : public ReferenceTraining {};

INSTANTIATE_TEST_SUITE_P(Fixtures, ReferenceTraining, ::testing::ValuesIn(device_fixtures()),
                         case_name);
// The positions of the GGUF models are too few for the engine's samples.
INSTANTIATE_TEST_SUITE_P(Families, ReferenceEngine,
                         ::testing::Values("llama", "llama_bf16", "llama_rope_yarn", "smollm2",
                                           "qwen2", "qwen3", "mistral", "gemma3"),
                         case_name);

TEST_P(ReferenceTraining, AStepMatchesTheCpu) {
  const Trained want = train(rig_on(cpu_device(), GetParam())),
                got = train(rig_on(reference_device(), GetParam()));
  EXPECT_EQ(got.metrics.optimizer_steps, 1);
  EXPECT_EQ(got.metrics.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(got.metrics.loss_tokens, want.metrics.loss_tokens);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  // Twice what a golden test allows the CPU against float64.
  for (size_t i = 0; i < got.logprobs.size(); ++i)
    ASSERT_NEAR(got.logprobs[i], want.logprobs[i], 4e-5) << "token " << i;
  EXPECT_NEAR(got.metrics.loss, want.metrics.loss, 4e-6);
  // fp32 sums in another order: another order of tokens alone changes a gradient by 1e-6
  // (docs/architecture.md); here all sums inside ops differ too.
  EXPECT_LE(relative_l2(got.gradients, want.gradients), 1e-4);
  // The first update of AdamW is the sign of the gradient times lr. The sign of a gradient that
  // cancels to rounding noise is arbitrary: 2 lr of difference for one element in 1,600 is 0.05.
  EXPECT_LE(relative_l2(got.update, want.update), 0.05);
}

// Parts of fused matrices and biases, norms of rows and of heads, and the embedding are frozen.
TEST(ReferenceFreeze, GradientsOfWhatIsTrainedMatchTheCpu) {
  const std::pair<const char*, TrainableRule> cases[] = {
      {"llama", {{"*.k_proj.weight", "*.up_proj.weight", "*input_layernorm.weight"}, {}}},
      {"qwen2", {{"*.q_proj.bias", "*.v_proj.*"}, {}}},
      {"qwen3", {{"*.q_norm.weight", "model.embed_tokens.weight"}, {}}}};
  for (const auto& [model, trainable] : cases) {
    SCOPED_TRACE(model);
    const Trained want = train(rig_on(cpu_device(), model, Dtype::kF32, trainable)),
                  got = train(rig_on(reference_device(), model, Dtype::kF32, trainable));
    ASSERT_EQ(got.gradients.size(), want.gradients.size());
    EXPECT_LT(got.gradients.size(), got.update.size());
    EXPECT_LE(relative_l2(got.gradients, want.gradients), 1e-4);  // as in AStepMatchesTheCpu
  }
}

TEST_P(ReferenceEngine, SampledLogprobsEqualTheTrainers) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    TrainRig rig = rig_on(reference_device(), GetParam(), dtype);
    for (const Sampling& sampling : {Sampling{1, 64, 1.0f}, Sampling{3, 7, 0.7f}}) {
      const std::vector<Sample> samples = sample_with_engine(rig.model(), sampling);
      const TrainMetrics m = rig.trainer->step(with_advantages(samples));
      EXPECT_EQ(m.logprob_max_abs_diff, 0.0) << dtype_name(dtype) << ", batch " << sampling.batch;
      EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
      EXPECT_GT(m.loss_tokens, 4);
      EXPECT_EQ(m.ratio_max, 1.0);
      EXPECT_EQ(m.optimizer_steps, 1);
    }
  }
}

// On the reference device: what a divided attention and its backward are by their contract.
std::vector<float> gradients_of_ranks(const ContextLayout& layout) {
  std::vector<float> out;
  TrainerOptions o;
  o.max_tokens = 128;
  o.schedule.lr = 1e-3;
  on_ranks(layout, {.device = reference_device()}, o, [&](TrainRig& rig, int rank) {
    std::vector<Sample> samples = group_samples({2, 2, 30, 20}, rig.model().config().vocab, 3);
    store_logprobs(rig, samples);
    rig.trainer->step(with_advantages(samples));
    if (rank == 0) out = rig.gradients();
  });
  return out;
}

TEST(ReferenceContext, RanksInARingTrainAsOneRankDoes) {
  const std::vector<float> one = gradients_of_ranks({});
  for (const ContextRule& rule :
       {ContextRule{2, ContextKind::kRing, true}, ContextRule{3, ContextKind::kRing}}) {
    EXPECT_LE(relative_l2(gradients_of_ranks({rule}), one), 1e-5);
  }
}

// A divergence and its derivative subtract two log-probs, each of which the devices agree on to
// 4e-5: the sum over a row is off by at most 8e-5, and the derivative by that much of a difference
// that is a tenth or more between unrelated models.
TEST(ReferenceDistillation, AStepMatchesTheCpu) {
  const Trained want = distill_on_rows(cpu_device()), got = distill_on_rows(reference_device());
  EXPECT_GT(want.metrics.distill_kl, 0.01);
  EXPECT_NEAR(got.metrics.distill_kl, want.metrics.distill_kl, 8e-5);
  EXPECT_LE(relative_l2(got.gradients, want.gradients), 1e-3);
}

}  // namespace
}  // namespace rl::testing
