// Which checkpoints stay when a new one is written: the newest, and the best by a metric.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "checkpoint_arrays.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {
namespace {

class KeptCheckpoints : public ::testing::Test {
 protected:
  // Writes the checkpoint of the next step.
  void save(std::optional<CheckpointScore> score) {
    CheckpointState state{{++step_, "digest", "{}"}, {{}}};
    state.meta.score = std::move(score);
    const std::vector<CheckpointArrays> views = {arrays_.view()};
    save_checkpoint(real_fs(), dir_.path(), state, views, rules_);
  }
  void save_scores(const std::vector<double>& values) {
    for (const double value : values) save(CheckpointScore{"reward", value});
  }
  std::set<int64_t> kept() const {
    std::set<int64_t> steps;
    for (int64_t step = 1; step <= step_; ++step) {
      if (real_fs().exists(checkpoint_path(dir_.path(), step))) steps.insert(step);
    }
    return steps;
  }

  const TempDir dir_;
  CheckpointedArrays arrays_{1};
  CheckpointRules rules_{.keep_last = 1, .keep_best = 2, .metric = "reward"};
  int64_t step_ = 0;
};
using Steps = std::set<int64_t>;

TEST_F(KeptCheckpoints, TheBestStayBesidesTheNewest) {
  save_scores({0.5, 0.9, 0.1, 0.7, 0.2});
  EXPECT_EQ(kept(), (Steps{2, 4, 5}));
}

TEST_F(KeptCheckpoints, OneThatIsNewestAndBestTakesOnePlace) {
  save_scores({0.5, 0.1, 0.9});
  EXPECT_EQ(kept(), (Steps{1, 3}));
}

TEST_F(KeptCheckpoints, OfEqualScoresTheNewerStay) {
  save_scores({0.5, 0.5, 0.5, 0.1});
  EXPECT_EQ(kept(), (Steps{2, 3, 4}));
}

TEST_F(KeptCheckpoints, TheLowestMayBeTheBest) {
  rules_.lowest_is_best = true;
  save_scores({-3, 0.9, -5, 0.7, 0.2});
  EXPECT_EQ(kept(), (Steps{1, 3, 5}));
}

TEST_F(KeptCheckpoints, ScoresOfAnotherMetricAndMissingOnesAreNoneOfTheBest) {
  save(std::nullopt);
  save(CheckpointScore{"length", 100});
  save_scores({0.1, 0.2, 0.3});
  EXPECT_EQ(kept(), (Steps{4, 5}));
}

TEST_F(KeptCheckpoints, ADamagedOneIsNoneOfTheBest) {
  save_scores({0.9, 0.1});
  std::ofstream(checkpoint_path(dir_.path(), 1) + "/manifest.json") << "{}";
  save_scores({0.2, 0.3, 0.1});
  EXPECT_EQ(kept(), (Steps{3, 4, 5}));
}

TEST_F(KeptCheckpoints, AScoreIsReadBackWithTheMeta) {
  save(CheckpointScore{"reward", 0.1});
  const CheckpointMeta meta =
      read_checkpoint_meta(real_fs(), checkpoint_path(dir_.path(), 1), "digest");
  ASSERT_TRUE(meta.score.has_value());
  EXPECT_EQ(meta.score->metric, "reward");
  EXPECT_EQ(meta.score->value, 0.1);
}

}  // namespace
}  // namespace rl::testing
