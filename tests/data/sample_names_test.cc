// Names of enum values and of samples, and what a sample says of its tokens.
#include <gtest/gtest.h>

#include "data/sample.h"

namespace rl {
namespace {

TEST(SampleNames, EveryFinishReasonHasItsName) {
  const std::pair<FinishReason, const char*> names[] = {{FinishReason::kNone, "none"},
                                                        {FinishReason::kStopToken, "stop_token"},
                                                        {FinishReason::kStopString, "stop_string"},
                                                        {FinishReason::kLength, "length"},
                                                        {FinishReason::kAborted, "aborted"}};
  for (const auto& [reason, name] : names) EXPECT_STREQ(finish_reason_name(reason), name);
  EXPECT_STREQ(finish_reason_name(static_cast<FinishReason>(std::size(names))), "unknown");
}

TEST(SampleNames, EveryDropReasonHasItsName) {
  const std::pair<DropReason, const char*> names[] = {
      {DropReason::kNone, "none"},
      {DropReason::kStale, "stale"},
      {DropReason::kAborted, "aborted"},
      {DropReason::kRewardError, "reward_error"},
      {DropReason::kRewardTimeout, "reward_timeout"},
      {DropReason::kNonFinite, "nonfinite"},
      {DropReason::kFiltered, "filtered"},
      {DropReason::kOverlong, "overlong"},
      {DropReason::kPoisoned, "poisoned"},
      {DropReason::kRollback, "rollback"},
      {DropReason::kCancelled, "cancelled"},
      {DropReason::kShutdown, "shutdown"}};
  for (const auto& [reason, name] : names) EXPECT_STREQ(drop_reason_name(reason), name);
  EXPECT_STREQ(drop_reason_name(static_cast<DropReason>(std::size(names))), "unknown");
}

TEST(SampleNames, ASampleIsNamedByItsIdAndItsPlace) {
  Sample s;
  s.id = 7;
  s.ordinal = 3;
  s.slot = 1;
  EXPECT_EQ(sample_name(s), "sample 7 (ordinal 3, slot 1)");
}

TEST(SampleNames, TokensAfterThePromptAreGenerated) {
  Sample s;
  s.ids = {1, 2, 3, 4, 5};
  s.prompt_tokens = 2;
  EXPECT_EQ(s.generated(), 3);
  s.prompt_tokens = 5;
  EXPECT_EQ(s.generated(), 0);
}

TEST(SampleNames, WithoutFlagsNoTokenHasMixedKeysAndValues) {
  Sample s;
  EXPECT_FALSE(s.has_mixed_kv(0));
  s.mixed_kv = {0, 1, 0};
  EXPECT_FALSE(s.has_mixed_kv(0));
  EXPECT_TRUE(s.has_mixed_kv(1));
  EXPECT_FALSE(s.has_mixed_kv(2));
}

}  // namespace
}  // namespace rl
