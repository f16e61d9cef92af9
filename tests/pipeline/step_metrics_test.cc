// Figures of a batch that follow from its samples alone.
#include "pipeline/update/step_metrics.h"

#include <gtest/gtest.h>

#include "run_rig.h"

namespace rl {
namespace {

SamplePtr sample_of(int32_t prompt, std::vector<uint8_t> mask) {
  auto s = std::make_shared<Sample>();
  s->prompt_tokens = prompt;
  s->ids.assign(static_cast<size_t>(prompt) + mask.size(), 5);
  s->loss_mask = std::move(mask);
  return s;
}

MetricList metrics_of(const std::vector<SamplePtr>& samples) {
  BatchAdvantages a;
  a.rewards.assign(samples.size(), 0);
  const std::vector<double> scores(samples.size(), 0);
  return batch_metrics({samples, scores, a});
}

TEST(StepMetrics, TurnsAreThePromptAndRunsOfTokensWithAndWithoutLoss) {
  const MetricList m = metrics_of({sample_of(3, {1, 1}), sample_of(2, {1, 0, 0, 1, 1}),
                                   sample_of(2, {0, 1}), sample_of(4, {})});
  EXPECT_EQ(m.get("num_turns/min"), 1.0);
  EXPECT_EQ(m.get("num_turns/max"), 4.0);
  EXPECT_EQ(m.get("num_turns/mean"), (2.0 + 4.0 + 3.0 + 1.0) / 4);
  EXPECT_EQ(m.get("response/aborted_ratio"), 0.25);
}

TEST(StepMetrics, OneDeviceHasAllTokens) {
  const MetricList m = length_metrics(std::vector{sample_of(3, {1, 1}), sample_of(2, {1})});
  for (const char* name : {"min", "max", "mean", "balanced_min", "balanced_max"}) {
    EXPECT_EQ(m.get(std::string("global_seqlen/") + name), 8.0) << name;
  }
  EXPECT_EQ(m.get("global_seqlen/minmax_diff"), 0.0);
  EXPECT_FALSE(m.get("num_turns/mean"));
}

TEST(StepMetrics, AnEmptyBatchHasZeros) {
  const MetricList m = metrics_of({});
  for (const char* name : {"response/aborted_ratio", "num_turns/mean", "global_seqlen/max"}) {
    EXPECT_EQ(m.get(name), 0.0) << name;
  }
}

// One value has no variance that returns could be compared with.
TEST(StepMetrics, TheReturnOfOneTokenIsNotExplained) {
  BatchAdvantages a;
  a.mask = {0, 1};
  a.returns = {0, 2};
  const std::vector<std::vector<float>> values = {{9.0f, 0.5f}};
  const MetricList m = value_metrics(a, values);
  EXPECT_EQ(m.get("critic/values/mean"), 0.5);
  EXPECT_EQ(m.get("critic/vf_explained_var"), 0.0);
}

// Returns 1 and 5 have the variance 8, errors 0 and 2 the variance 2; 1e-5 is added to the former.
TEST(StepMetrics, TheExplainedVarianceIsARatioOfVariances) {
  BatchAdvantages a;
  a.mask = {1, 1};
  a.returns = {1, 5};
  const std::vector<std::vector<float>> values = {{1.0f, 3.0f}};
  EXPECT_NEAR(value_metrics(a, values).get("critic/vf_explained_var").value(), 0.75, 1e-6);
}

TEST(StepMetrics, ARunTellsThem) {
  const TempDir dir;
  testing::Rig rig(testing::tiny_options(dir));
  for (const MetricList& m : rig.start_and_serve().steps) {
    EXPECT_EQ(m.get("num_turns/mean"), 2.0);
    EXPECT_EQ(m.get("response/aborted_ratio"), 0.0);
    EXPECT_EQ(m.get("global_seqlen/mean"), m.get("perf/total_num_tokens"));
  }
}

// Sixteen responses of 8 tokens to prompts of 3.
TEST(StepMetrics, RatesAreOfTheTokensOfTheirPhase) {
  const TempDir dir;
  testing::Rig rig(testing::tiny_options(dir));
  for (const MetricList& m : rig.start_and_serve().steps) {
    const auto product = [&](const char* rate, const char* seconds) {
      return m.get(rate).value() * m.get(seconds).value();
    };
    EXPECT_NEAR(product("perf/rollout_tokens_per_s", "timing_s/gen"), 128, 1e-6);
    EXPECT_NEAR(product("perf/train_tokens_per_s", "timing_s/train"),
                m.get("training/tokens").value(), 1e-6);
    EXPECT_EQ(m.get("perf/total_num_tokens"), 128.0 + 48.0);
    EXPECT_NEAR(product("perf/throughput", "timing_s/step"), 176, 1e-6);
  }
}

}  // namespace
}  // namespace rl
