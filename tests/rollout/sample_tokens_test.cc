// Arrays of a sample stay of one length whatever is added and taken back.
#include "rollout/sample_tokens.h"

#include <gtest/gtest.h>

namespace rl {
namespace {

TEST(SampleTokens, WhatIsCutBackLeavesNoFlagBehind) {
  Sample s;
  s.ids = {1, 2};
  s.prompt_tokens = 2;
  TokenChoice choice;
  choice.id = 3;
  append_sampled(s, choice, 0, false);
  append_sampled(s, choice, 1, true);
  append_given(s, 4);
  EXPECT_EQ(s.mixed_kv, (std::vector<uint8_t>{0, 1, 0}));
  cut_back(s, 4);
  EXPECT_EQ(s.ids.size(), 4u);
  EXPECT_EQ(s.mixed_kv, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(s.logprobs.size(), 2u);
  EXPECT_EQ(s.versions, (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(s.loss_mask.size(), 2u);
}

}  // namespace
}  // namespace rl
