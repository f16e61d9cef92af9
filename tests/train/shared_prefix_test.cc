// Prompts that are computed once for all their samples against prompts computed for each: equal
// log-probs, close gradients, the same bits at any thread count.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "train_rig.h"

namespace rl::testing {
namespace {

// Six groups of one to eight samples; prompts end inside and at the end of KV blocks of 16 tokens,
// answers have 1 to 40 tokens.
std::vector<Sample> groups(int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Sample> out;
  const int32_t prompts[] = {1, 16, 21, 32, 47, 5};
  for (size_t g = 0; g < std::size(prompts); ++g) {
    std::vector<int32_t> prompt(static_cast<size_t>(prompts[g]));
    for (auto& id : prompt) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
    const uint32_t count = g == 4 ? 1 : 8 - static_cast<uint32_t>(g);
    for (uint32_t slot = 0; slot < count; ++slot) {
      std::vector<int32_t> ids = prompt;
      for (size_t n = 1 + rng() % 40; n > 0; --n)
        ids.push_back(static_cast<int32_t>(rng() % static_cast<unsigned>(vocab)));
      out.push_back(make_sample(std::move(ids), prompts[g], g, slot));
      for (auto& mask : out.back().loss_mask) mask = rng() % 8 != 0;
      out.back().temperature = slot % 2 == 0 ? 1.0f : 0.7f;
    }
  }
  return out;
}

struct Step {
  TrainMetrics metrics;
  std::vector<float> gradients, masters;
  std::vector<Sample> samples;
};

struct StepRules {
  bool shared = true;
  int64_t max_tokens = 2048;
  double loss_scale = 1;
};

Step step(const RigOptions& rig_options, const StepRules& rules) {
  TrainerOptions options;
  options.max_tokens = rules.max_tokens;
  options.logprob_chunk_tokens = 50;
  options.schedule.lr = 1e-3;
  options.entropy_coef = 0.01 * rules.loss_scale;
  options.shared_prefix = rules.shared;
  TrainRig rig(rig_options, options);
  Step r;
  r.samples = groups(rig.model().config().vocab, 5);
  store_logprobs(rig, r.samples);
  std::vector<TrainSample> batch = with_advantages(r.samples);
  for (TrainSample& s : batch) s.advantage *= rules.loss_scale;
  r.metrics = rig.trainer->step(batch);
  r.gradients = rig.gradients();
  r.masters = rig.masters();
  return r;
}

class SharedPrefix : public ::testing::TestWithParam<std::tuple<Dtype, const char*>> {
 protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  RigOptions rig(int threads) const {
    return {.model = std::get<1>(GetParam()), .compute = std::get<0>(GetParam()), .threads = threads};
  }
};
// Biases, norms of queries and keys, windows and sandwich norms.
INSTANTIATE_TEST_SUITE_P(
    Models, SharedPrefix,
    ::testing::Combine(::testing::Values(Dtype::kF32, Dtype::kBf16),
                       ::testing::Values("llama", "smollm2", "qwen2", "qwen3", "gemma3", "mistral")),
    [](const auto& info) {
      return std::string(dtype_name(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
    });

// What the rounding of gradients alone does to a gradient: another scale of the loss is other
// roundings of the same values.
double rounding_noise(const RigOptions& rig, const Step& unscaled) {
  constexpr float kScale = 1.1f;
  Step scaled = step(rig, {.shared = false, .loss_scale = kScale});
  for (float& g : scaled.gradients) g /= kScale;
  return relative_l2(scaled.gradients, unscaled.gradients);
}

TEST_P(SharedPrefix, LogprobsAreEqualAndGradientsClose) {
  const auto [dtype, model] = GetParam();
  const Step apart = step(rig(2), {.shared = false});
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
  // fp32: sums over tokens in another order (N4). bf16: the gradients of a prompt's rows are rounded
  // once for all samples, not once for each; a third of what rounding alone does was measured.
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

}  // namespace
}  // namespace rl::testing
