#include "rollout/request_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr RequestLimits kLimits = {.vocab = 100,
                                   .max_model_len = 64,
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
  r.num_samples = 65536;  // they take turns
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
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{65537}, INT64_MAX}) {
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

TEST(RequestCheck, ASampleThatNeverFitsThePoolIsRefused) {
  Request r = valid();
  r.max_new_tokens = 30;  // the last position fed is still in the second block
  r.num_samples = 8;
  check_request(r, {100, 64, 16, 2, true});
  const Error e =
      expect_error(Code::kResourceExhausted, [&] { check_request(r, {100, 64, 16, 1, true}); });
  EXPECT_TRUE(contains(e.message, "2 KV blocks"));
  EXPECT_TRUE(contains(e.message, "has 1"));
  r.max_new_tokens = 31;
  expect_error(Code::kResourceExhausted, [&] { check_request(r, {100, 64, 16, 2, true}); });
}

TEST(RequestCheck, ASampleToGoOnFromMustBeWhole) {
  auto sample = std::make_shared<Sample>();
  sample->ids = {1, 2, 3, 4};
  sample->prompt_tokens = 2;
  sample->logprobs = sample->logprobs_sampled = {-1, -2};
  sample->versions = {0, 0};
  sample->loss_mask = {1, 1};
  Request r;
  r.resume = sample;
  r.max_new_tokens = 60;
  check_request(r, kLimits);
  r.max_new_tokens = 61;
  expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
  r.max_new_tokens = 10;
  r.num_samples = 2;
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); }).key, "resume");
  r.num_samples = 1;
  r.prompt = {1};
  expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); });
  r.prompt.clear();
  sample->versions.pop_back();
  expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); });
  sample->versions.push_back(0);
  r.sampling.temperature = 0.7f;
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); }).key,
            "sampling.temperature");
  r.sampling.temperature = 0;
  check_request(r, kLimits);
  r.sampling.temperature = 1;
  sample->ids[3] = 100;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).location,
            "prompt[3]");
}

TEST(RequestCheck, PriorityIsBounded) {
  Request r = valid();
  r.priority = INT64_MIN;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).key,
            "sampling.priority");
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
  o = {};
  o.chunked_prefill = false;
  check_engine_options(o, 1024);
  expect_error(Code::kConflict, [&] { check_engine_options(o, 1025); });
  for (const double bad : {-0.1, 1.0, static_cast<double>(NAN)}) {
    o = {};
    o.kv_watermark = bad;
    EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_engine_options(o, 128); }).key,
              "engine.kv_watermark");
  }
}

}  // namespace
}  // namespace rl
