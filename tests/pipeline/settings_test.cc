// Typed settings: every field has the value of the option whose key it spells.
#include <gtest/gtest.h>

#include <string_view>

#include "core/error.h"
#include "pipeline/config/settings.gen.h"

namespace rl {
namespace {

Settings with(const std::vector<std::string>& assignments) {
  OptionSet options;
  for (const std::string& text : assignments) options.set_assignment(text);
  return options;
}

TEST(Settings, AFieldHasTheValueOfItsKey) {
  const Settings s =
      with({"algo.kl.coef=0.25", "pipeline.samples_per_prompt=7",
            "runtime.seed=18446744073709551615", "metrics.tensorboard=true", "checkpoint.dir=here",
            "sampling.stop=a,b", "sampling.stop_token_ids=3,4", "pipeline.reward_timeout_ns=2s",
            "engine.swap_space_bytes=1KiB", "critic.optimizer.lr=0.5"});
  EXPECT_EQ(s.algo.kl.coef, 0.25);
  EXPECT_EQ(s.pipeline.samples_per_prompt, 7);
  EXPECT_EQ(s.runtime.seed, UINT64_MAX);
  EXPECT_TRUE(s.metrics.tensorboard);
  EXPECT_EQ(s.checkpoint.dir, "here");
  EXPECT_EQ(s.sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.sampling.stop_token_ids, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(s.pipeline.reward_timeout_ns, 2'000'000'000);
  EXPECT_EQ(s.engine.swap_space_bytes, 1024u);
  EXPECT_EQ(s.critic.optimizer.lr, 0.5);
  EXPECT_NE(s.optimizer.lr, 0.5);
}

TEST(Settings, AChoiceIsTheEnumeratorOfItsName) {
  EXPECT_EQ(with({}).pipeline.filter, PipelineFilter::kNone);
  EXPECT_EQ(with({"pipeline.filter=mean"}).pipeline.filter, PipelineFilter::kMean);
  EXPECT_EQ(with({"pipeline.filter=spread"}).pipeline.filter, PipelineFilter::kSpread);
  EXPECT_EQ(with({"model.dtype=fp32"}).model.dtype, ModelDtype::kFp32);
  EXPECT_EQ(with({"algo.kl.where=loss"}).algo.kl.where, AlgoKlWhere::kLoss);
  EXPECT_EQ(with({"algo.objective=dpo"}).algo.objective, Objective::kDpo);
  EXPECT_EQ(with({"algo.advantage=remax"}).algo.advantage, Advantage::kRemax);
  EXPECT_EQ(with({"runtime.log_level=warn"}).runtime.log_level, LogLevel::kWarn);
}

// A lower layer that does not know a choice would refuse it here, and not only in a run.
TEST(Settings, EveryChoiceHasAnEnumerator) {
  int64_t choices = 0;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    for (size_t k = 0; k < info.num_choices; ++k) {
      const std::string_view choice = info.choices[k].name;
      if (info.unsupported_reason[0] != '\0' && choice != info.default_text) continue;
      SCOPED_TRACE(str(info.key, " = ", choice));
      EXPECT_NO_THROW(with({str(info.key, "=", choice)}));
      ++choices;
    }
  }
  EXPECT_GT(choices, 90);
}

TEST(Settings, KeepTheSetThatTheyWereMadeFrom) {
  OptionSet options;
  options.set_f64("algo.kl.coef", 0.125);
  const Settings settings = options;
  EXPECT_EQ(settings.set.dump(false), options.dump(false));
  EXPECT_EQ(settings.set.identity(), options.identity());
}

}  // namespace
}  // namespace rl
