// Prompts that are computed once for all their samples against prompts computed for each: equal
// log-probs, close gradients, the same bits at any thread count.
#include <gtest/gtest.h>

#include <iostream>

#include "group_rig.h"
#include "support/compute_dtypes.h"

namespace rl::testing {
namespace {

class SharedPrefix : public ::testing::TestWithParam<std::tuple<Dtype, const char*>> {
 protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  RigOptions rig(int threads) const {
    return {
        .model = std::get<1>(GetParam()), .compute = std::get<0>(GetParam()), .threads = threads};
  }
};
// Biases, norms of queries and keys, windows and sandwich norms.
INSTANTIATE_TEST_SUITE_P(Models, SharedPrefix,
                         ::testing::Combine(::testing::ValuesIn(compute_dtypes()),
                                            ::testing::Values("llama", "smollm2", "qwen2", "qwen3",
                                                              "gemma3", "mistral")),
                         [](const auto& info) {
                           return std::string(dtype_name(std::get<0>(info.param))) + "_" +
                                  std::get<1>(info.param);
                         });

TEST_P(SharedPrefix, LogprobsAreEqualAndGradientsClose) {
  const auto [dtype, model] = GetParam();
  const Step apart = step(rig(2), without_sharing());
  double largest = 0;
  for (const int64_t max_tokens : {90, 200, 2048}) {
    const Step shared = step(rig(2), {.max_tokens = max_tokens});
    for (size_t i = 0; i < apart.samples.size(); ++i)
      EXPECT_TRUE(same_bits(shared.samples[i].logprobs, apart.samples[i].logprobs)) << i;
    EXPECT_EQ(shared.metrics.logprob_max_abs_diff, 0.0);
    EXPECT_EQ(shared.metrics.tokens, apart.metrics.tokens);
    EXPECT_EQ(shared.metrics.loss_tokens, apart.metrics.loss_tokens);
    EXPECT_LT(shared.metrics.computed_rows, apart.metrics.computed_rows);
    EXPECT_NEAR(shared.metrics.loss, apart.metrics.loss, 1e-12);  // sums in double
    largest = std::max(largest, relative_l2(shared.gradients, apart.gradients));
  }
  const double noise = rounding_noise(rig(2), apart);
  std::cout << "relative L2 of gradients, shared prompts against none, " << model << " "
            << dtype_name(dtype) << ": " << largest << " (rounding alone: " << noise << ")\n";
  RecordProperty("relative_l2", std::to_string(largest));
  // fp32: sums over tokens in another order (N4). bf16: the gradients of a prompt's rows are
  // rounded once for all samples, not once for each; a third of what rounding alone does was
  // measured.
  EXPECT_LE(largest, dtype == Dtype::kF32 ? 1e-6 : noise / 2);
}

TEST_P(SharedPrefix, ThreadsLeaveTheBits) {
  const Step one = step(rig(1), {}), three = step(rig(3), {});
  EXPECT_TRUE(same_bits(one.gradients, three.gradients));
  EXPECT_TRUE(same_bits(one.masters, three.masters));
}

TEST(SharedPrefixRows, APromptIsComputedOncePerMicroBatch) {
  TrainerOptions options;
  options.max_tokens = 1024;
  TrainRig rig({}, options);
  std::vector<Sample> samples;
  for (uint32_t slot = 0; slot < 8; ++slot) {
    std::vector<int32_t> ids(64 + 11, 7);
    ids.back() = static_cast<int32_t>(slot);
    samples.push_back(make_sample(std::move(ids), 64, 0, slot));
  }
  store_logprobs(rig, samples);
  const TrainMetrics metrics = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(metrics.micro_batches, 1);
  EXPECT_EQ(metrics.tokens, 8 * (64 + 10));
  EXPECT_EQ(metrics.computed_rows, 64 + 8 * 10);
}

// A prompt of one token and responses with one row of their own: every sequence of the micro-batch
// has one row.
TEST(SharedPrefixRows, PromptsOfOneTokenAreScoredAsTheyAreTrained) {
  TrainerOptions options;
  options.max_tokens = 64;
  options.kl_in_loss = true;
  options.kl_coef = 0.5;
  options.entropy_coef = 0.01;
  TrainRig rig({.threads = 2, .with_reference = true}, options);
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < 24; ++i) {
    std::vector<int32_t> ids = {1, static_cast<int32_t>(3 + 7 * i),
                                static_cast<int32_t>(200 - 5 * i)};
    samples.push_back(make_sample(std::move(ids), 1, i / 8, i % 8));
  }
  store_logprobs(rig, samples);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.kl, 0.0);  // the reference is the same model
  EXPECT_EQ(m.ratio_max, 1.0);
  EXPECT_EQ(m.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(m.logprob_compared_tokens, 48);
  EXPECT_LT(m.computed_rows, m.tokens);
}

}  // namespace
}  // namespace rl::testing
