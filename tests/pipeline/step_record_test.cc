// Metrics of a step from its times and counts, with figures that can be checked by hand.
#include "pipeline/loop/step_record.h"

#include <gtest/gtest.h>

namespace rl {
namespace {

constexpr int64_t kMs = 1'000'000;

std::vector<std::string> names_of(const MetricList& m) {
  std::vector<std::string> out;
  for (const Metric& metric : m) out.push_back(metric.name);
  return out;
}

TEST(StepRecord, FilteredGroupsAreCountedByTheirFilter) {
  const MetricList m =
      StepRecord::Filtered{.score = 5, .zero_advantage = 4, .missing = 3, .rounds = 2}.metrics();
  EXPECT_EQ(m.size(), 4u);
  EXPECT_EQ(m.get("pipeline/groups_filtered/score"), 5.0);
  EXPECT_EQ(m.get("pipeline/groups_filtered/zero_advantage"), 4.0);
  EXPECT_EQ(m.get("pipeline/groups_filtered/not_replaced"), 3.0);
  EXPECT_EQ(m.get("pipeline/filter_rounds"), 2.0);
}

// The engine counts since it was made.
TEST(StepRecord, GenerationIsWhatTheEngineDidSinceTheStepBegan) {
  StepRecord step;
  step.times.generating_ns = 250 * kMs;
  step.times.scoring_ns = 600 * kMs;
  EngineStats& before = step.engine_before;
  before.prefill_tokens = 10;
  before.decode_tokens = 20;
  before.preemptions = 1;
  before.cached_tokens = 5;
  before.looked_up_tokens = 50;
  before.prefill_ns = 10 * kMs;
  before.decode_ns = 20 * kMs;
  before.blocks_peak = 7;
  EngineStats after = before;
  after.prefill_tokens = 17;
  after.decode_tokens = 31;
  after.preemptions = 4;
  after.cached_tokens = 15;
  after.looked_up_tokens = 90;
  after.prefill_ns = 110 * kMs;
  after.decode_ns = 60 * kMs;
  after.blocks_peak = 6;
  after.blocks_total = 24;
  const MetricList m = step.generation_metrics(after);
  EXPECT_EQ(m.get("rollout/prefill_tokens"), 7.0);
  EXPECT_EQ(m.get("rollout/decode_tokens"), 11.0);
  EXPECT_EQ(m.get("perf/engine/preemptions"), 3.0);
  EXPECT_DOUBLE_EQ(m.get("perf/engine/prefix_hit_rate").value(), 0.25);
  EXPECT_DOUBLE_EQ(m.get("perf/engine/kv_use_peak").value(), 0.25);
  EXPECT_DOUBLE_EQ(m.get("timing_s/engine/prefill").value(), 0.1);
  EXPECT_DOUBLE_EQ(m.get("timing_s/engine/decode").value(), 0.04);
  EXPECT_DOUBLE_EQ(m.get("timing_s/gen").value(), 0.25);
  EXPECT_DOUBLE_EQ(m.get("timing_s/reward").value(), 0.6);
}

// Eight samples of 3 prompt tokens and 5 generated ones.
StepRecord trained_step() {
  StepRecord step;
  step.times.begin = 100 * kMs;
  step.times.generating_ns = 400 * kMs;
  step.times.scoring_ns = 100 * kMs;
  step.times.training_ns = 500 * kMs;
  step.trained.set("training/samples", 8);
  step.trained.set("prompt_length/mean", 3);
  step.trained.set("response_length/mean", 5);
  step.trained.set("training/tokens", 60);
  return step;
}

TEST(StepRecord, TimesAndRatesAreOfTheirOwnPhase) {
  MetricList m;
  trained_step().set_times(m, 2100 * kMs, true);
  EXPECT_DOUBLE_EQ(m.get("timing_s/train").value(), 0.5);
  EXPECT_DOUBLE_EQ(m.get("timing_s/step").value(), 2);
  EXPECT_DOUBLE_EQ(m.get("perf/total_num_tokens").value(), 64);
  EXPECT_DOUBLE_EQ(m.get("perf/throughput").value(), 32);
  EXPECT_DOUBLE_EQ(m.get("perf/rollout_tokens_per_s").value(), 100);  // 40 in 0.4 s
  EXPECT_DOUBLE_EQ(m.get("perf/train_tokens_per_s").value(), 120);    // 60 in 0.5 s
}

TEST(StepRecord, AStepThatGeneratesNothingHasNoRateOfIt) {
  MetricList m;
  trained_step().set_times(m, 2100 * kMs, false);
  EXPECT_EQ(names_of(m),
            (std::vector<std::string>{"timing_s/train", "timing_s/step", "perf/total_num_tokens",
                                      "perf/throughput", "perf/train_tokens_per_s"}));
}

// Generation counts what it generated, all else prompts too.
TEST(StepRecord, TimesPerTokenAreOfThePhasesThatRan) {
  const std::vector<std::string> phases = {"gen", "ref",           "values",
                                           "adv", "update_critic", "update_actor"};
  for (const std::string& phase : phases) {
    SCOPED_TRACE(phase);
    MetricList m;
    m.set("timing_s/" + phase, 0.64);
    trained_step().set_times(m, 2100 * kMs, true);
    for (const std::string& other : phases) {
      const auto spent = m.get("timing_per_token_ms/" + other);
      EXPECT_EQ(spent.has_value(), other == phase) << other;
    }
    EXPECT_DOUBLE_EQ(m.get("timing_per_token_ms/" + phase).value(), phase == "gen" ? 16 : 10);
  }
}

TEST(StepRecord, AStepWithoutSamplesHasRatesOfZero) {
  StepRecord step = trained_step();
  step.trained = {};
  step.times.training_ns = 0;
  step.times.generating_ns = 0;
  MetricList m;
  m.set("timing_s/gen", 1);
  step.set_times(m, step.times.begin, true);
  EXPECT_FALSE(m.get("timing_per_token_ms/gen"));
  for (const char* name : {"perf/total_num_tokens", "perf/throughput", "perf/rollout_tokens_per_s",
                           "perf/train_tokens_per_s", "timing_s/train", "timing_s/step"}) {
    EXPECT_EQ(m.get(name), 0.0) << name;
  }
}

}  // namespace
}  // namespace rl
