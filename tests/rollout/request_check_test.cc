#include "rollout/request_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr RequestLimits kLimits = {.vocab = 100,
                                   .max_model_len = 64,
                                   .max_num_seqs = 8,
                                   .block_size = 16,
                                   .num_blocks = 10,
                                   .has_tokenizer = true};

Request valid() {
  Request r;
  r.prompt = {1, 2, 99};
  r.max_new_tokens = 10;
  return r;
}

TEST(RequestCheck, AcceptsWhatFitsExactly) {
  Request r = valid();
  check_request(r, kLimits);
  r.max_new_tokens = 61;
  check_request(r, kLimits);
  r.max_new_tokens = 14;  // one block for each of eight samples
  r.num_samples = 8;
  check_request(r, kLimits);
}

TEST(RequestCheck, PromptMustHaveIdsOfTheVocabulary) {
  Request r = valid();
  r.prompt.clear();
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); }).key, "prompt");
  for (const int32_t bad : {-1, 100}) {
    r.prompt = {1, bad};
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_EQ(e.key, "prompt");
    EXPECT_EQ(e.location, "prompt[1]");
    EXPECT_TRUE(contains(e.message, std::to_string(bad)));
    EXPECT_TRUE(contains(e.expected, "0..99"));
  }
}

TEST(RequestCheck, CountsMustBeInRange) {
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{9}, INT64_MAX}) {
    Request r = valid();
    r.num_samples = bad;
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_EQ(e.key, "sampling.n");
    EXPECT_TRUE(contains(e.message, std::to_string(bad)));
  }
  for (const int64_t bad : {int64_t{0}, INT64_MIN}) {
    Request r = valid();
    r.max_new_tokens = bad;
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_EQ(e.key, "sampling.max_new_tokens");
  }
}

TEST(RequestCheck, TooLongNamesBothNumbers) {
  Request r = valid();
  for (const int64_t bad : {int64_t{62}, INT64_MAX}) {
    r.max_new_tokens = bad;
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_TRUE(contains(e.message, std::to_string(bad)));
    EXPECT_TRUE(contains(e.message, "engine.max_model_len 64"));
  }
  r.max_new_tokens = 1;
  r.prompt.assign(65, 1);
  expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
}

TEST(RequestCheck, MoreBlocksThanThePoolHasAreRefused) {
  Request r = valid();
  r.max_new_tokens = 14;  // the last position fed is still in the first block
  r.num_samples = 8;
  check_request(r, {100, 64, 8, 16, 8, true});
  const Error e = expect_error(Code::kResourceExhausted, [&] {
    check_request(r, {100, 64, 8, 16, 7, true});
  });
  EXPECT_TRUE(contains(e.message, "8 KV blocks"));
  EXPECT_TRUE(contains(e.message, "has 7"));
  r.max_new_tokens = 15;
  check_request(r, {100, 64, 8, 16, 16, true});
  expect_error(Code::kResourceExhausted, [&] { check_request(r, {100, 64, 8, 16, 15, true}); });
}

TEST(RequestCheck, SamplingParametersAreChecked) {
  Request r = valid();
  r.sampling.temperature = -1;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).key,
            "sampling.temperature");
  r = valid();
  r.sampling.top_p = NAN;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).key,
            "sampling.top_p");
}

TEST(RequestCheck, StopsAreChecked) {
  Request r = valid();
  r.stop_token_ids = {5, 100};
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).key,
            "sampling.stop_token_ids");
  r = valid();
  r.stop_strings = {"ok", ""};
  const Error empty = expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); });
  EXPECT_TRUE(contains(empty.message, "sampling.stop[1]"));
  r.stop_strings = {"\xff"};
  expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); });
  r.stop_strings = {"ok"};
  check_request(r, kLimits);
  RequestLimits bare = kLimits;
  bare.has_tokenizer = false;
  expect_error(Code::kFailedPrecondition, [&] { check_request(r, bare); });
}

TEST(EngineOptionsCheck, NamesKeyRangeAndValue) {
  check_engine_options({}, 128);
  EngineOptions o;
  o.max_num_seqs = 0;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_engine_options(o, 128); }).key,
            "engine.max_num_seqs");
  o = {};
  o.max_model_len = 129;
  const Error e = expect_error(Code::kOutOfRange, [&] { check_engine_options(o, 128); });
  EXPECT_EQ(e.key, "engine.max_model_len");
  EXPECT_TRUE(contains(e.message, "129"));
  EXPECT_TRUE(contains(e.expected, "128"));
  o = {};
  o.prefill_chunk = -1;
  expect_error(Code::kOutOfRange, [&] { check_engine_options(o, 128); });
  o = {};
  o.max_num_batched_tokens = 63;
  expect_error(Code::kConflict, [&] { check_engine_options(o, 128); });
}

}  // namespace
}  // namespace rl
