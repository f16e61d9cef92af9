// A training step in parts: begin, next, finish and abandon.
#include <gtest/gtest.h>

#include <limits>

#include "train_rig.h"

namespace rl::testing {
namespace {

// Two minibatches of several micro-batches each.
TrainerOptions stepped_options() {
  TrainerOptions o;
  o.max_tokens = 64;
  o.schedule.lr = 1e-3;
  o.batch.num_minibatches = 2;
  return o;
}

struct Stepped {
  Stepped() : rig({}, stepped_options()), samples(random_samples(12, 256, 4)) {
    std::ranges::fill(samples.front().loss_mask, 1);
    store_logprobs(rig, samples);
    batch = with_advantages(samples);
  }
  Trainer& trainer() { return *rig.trainer; }
  int64_t optimizer_steps() { return trainer().counters().optimizer_steps; }

  TrainRig rig;
  std::vector<Sample> samples;
  std::vector<TrainSample> batch;
};

TEST(SteppedTrainer, TheCallsOfAStepAreItsMicroBatches) {
  Stepped whole, parts;
  const TrainMetrics expected = whole.trainer().train(whole.batch);
  parts.trainer().begin(parts.batch);
  int64_t calls = 0;
  while (parts.trainer().next()) ++calls;
  const TrainMetrics metrics = parts.trainer().finish();
  EXPECT_EQ(calls, expected.micro_batches);
  EXPECT_GT(calls, 4);
  EXPECT_EQ(metrics.loss, expected.loss);
  EXPECT_TRUE(same_bits(parts.rig.masters(), whole.rig.masters()));
}

TEST(SteppedTrainer, StepsAreLeftUntilTheLastOptimizerStep) {
  Stepped s;
  s.trainer().begin(s.batch);
  EXPECT_TRUE(s.trainer().has_steps_left());
  while (s.optimizer_steps() < 2) {
    EXPECT_TRUE(s.trainer().has_steps_left());
    ASSERT_TRUE(s.trainer().next());
  }
  EXPECT_FALSE(s.trainer().has_steps_left());
  EXPECT_FALSE(s.trainer().next());
  EXPECT_EQ(s.trainer().finish().optimizer_steps, 2);
}

// A skipped optimizer step is one that has come.
TEST(SteppedTrainer, SkippedStepsAreNotLeft) {
  Stepped s;
  for (TrainSample& sample : s.batch) sample.advantage = std::numeric_limits<double>::quiet_NaN();
  s.trainer().begin(s.batch);
  EXPECT_EQ(s.trainer().planned_steps(), 2);
  for (int64_t skipped = 0; skipped < 2; skipped = s.trainer().counters().skipped_steps) {
    EXPECT_TRUE(s.trainer().has_steps_left());
    ASSERT_TRUE(s.trainer().next());
  }
  EXPECT_FALSE(s.trainer().has_steps_left());
  EXPECT_FALSE(s.trainer().next());
  const TrainMetrics m = s.trainer().finish();
  EXPECT_EQ(m.skipped_steps, 2);
  EXPECT_EQ(m.optimizer_steps, 0);
  EXPECT_EQ(s.optimizer_steps(), 0);
}

// Abandoned after any number of micro-batches; with a bad advantage the first optimizer step is
// skipped.
TEST(SteppedTrainer, AStepAbandonedBeforeAnOptimizerStepLeavesNoTrace) {
  Stepped clean;
  clean.trainer().step(clean.batch);
  const std::vector<float> expected = clean.rig.masters();
  for (const bool skips : {false, true}) {
    int undone = 0;
    for (bool applied = false; !applied; ++undone) {
      Stepped s;
      const std::vector<float> before = s.rig.masters();
      std::vector<TrainSample> bad = s.batch;
      if (skips) bad.front().advantage = std::numeric_limits<double>::quiet_NaN();
      s.trainer().begin(bad);
      for (int i = 0; i < undone; ++i) ASSERT_TRUE(s.trainer().next());
      applied = s.optimizer_steps() > 0;
      EXPECT_EQ(s.trainer().abandon(), !applied);
      if (applied) {
        EXPECT_FALSE(same_bits(s.rig.masters(), before));
        EXPECT_EQ(s.trainer().counters().skipped_steps, skips ? 1 : 0);
        continue;
      }
      EXPECT_TRUE(same_bits(s.rig.masters(), before));
      EXPECT_EQ(s.trainer().counters().skipped_steps, 0);
      s.trainer().step(s.batch);
      EXPECT_TRUE(same_bits(s.rig.masters(), expected)) << undone;
    }
    EXPECT_GT(undone, skips ? 4 : 2);
  }
}

}  // namespace
}  // namespace rl::testing
