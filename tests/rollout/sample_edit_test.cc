// Arrays of a sample stay of one length whatever is added and taken back.
#include "rollout/sample_edit.h"

#include <gtest/gtest.h>

namespace rl {
namespace {

TEST(SampleEdit, WhatIsCutBackLeavesNoFlagBehind) {
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

// The most probable ids of every token, num_top each.
TEST(SampleTokens, ATokenBringsItsEntryInEveryArray) {
  Sample s;
  s.ids = {1, 2};
  s.prompt_tokens = 2;
  s.num_top = 2;
  TokenChoice choice;
  choice.id = 5;
  choice.logprob = -1.5f;
  choice.logprob_sampled = -0.5f;
  choice.top_ids = {5, 6, 7};
  choice.top_logprobs = {-1.5f, -2.5f, -3.5f};
  append_sampled(s, choice, 4, false);
  append_given(s, 9);
  choice.id = 6;
  choice.top_ids = {8, 6, 7};
  append_sampled(s, choice, 5, true);
  EXPECT_EQ(s.ids, (std::vector<int32_t>{1, 2, 5, 9, 6}));
  EXPECT_EQ(s.logprobs, (std::vector<float>{-1.5f, 0, -1.5f}));
  EXPECT_EQ(s.logprobs_sampled, (std::vector<float>{-0.5f, 0, -0.5f}));
  EXPECT_EQ(s.versions, (std::vector<uint64_t>{4, kUnknownVersion, 5}));
  EXPECT_EQ(s.loss_mask, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(s.mixed_kv, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(s.top_ids, (std::vector<int32_t>{5, 6, -1, -1, 8, 6}));
  EXPECT_EQ(s.top_logprobs, (std::vector<float>{-1.5f, -2.5f, 0, 0, -1.5f, -2.5f}));
  cut_back(s, 3);
  EXPECT_EQ(s.ids, (std::vector<int32_t>{1, 2, 5}));
  EXPECT_EQ(s.logprobs, (std::vector<float>{-1.5f}));
  EXPECT_EQ(s.logprobs_sampled, (std::vector<float>{-0.5f}));
  EXPECT_EQ(s.versions, (std::vector<uint64_t>{4}));
  EXPECT_EQ(s.loss_mask, (std::vector<uint8_t>{1}));
  EXPECT_EQ(s.mixed_kv, (std::vector<uint8_t>{0}));
  EXPECT_EQ(s.top_ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(s.top_logprobs, (std::vector<float>{-1.5f, -2.5f}));
}

TEST(SampleTokens, WithoutAMixedTokenThereAreNoFlags) {
  Sample s;
  s.ids = {1};
  s.prompt_tokens = 1;
  append_sampled(s, {}, 0, false);
  append_given(s, 3);
  EXPECT_TRUE(s.mixed_kv.empty());
  cut_back(s, 2);
  EXPECT_TRUE(s.mixed_kv.empty());
}

TEST(SampleTokens, RoomIsReservedForTokensBehindThePrompt) {
  Sample s;
  s.ids = {1, 2, 3};
  s.prompt_tokens = 3;
  s.num_top = 4;
  reserve_tokens(s, 13);
  EXPECT_GE(s.ids.capacity(), 13u);
  for (const size_t room : {s.logprobs.capacity(), s.logprobs_sampled.capacity(),
                            s.versions.capacity(), s.mixed_kv.capacity(), s.loss_mask.capacity()}) {
    EXPECT_GE(room, 10u);
  }
  EXPECT_GE(s.top_ids.capacity(), 40u);
  EXPECT_GE(s.top_logprobs.capacity(), 40u);
}

}  // namespace
}  // namespace rl
