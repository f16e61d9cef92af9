#include "rollout/request_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr RequestLimits kLimits = {
    .vocab = 100, .max_model_len = 64, .block_size = 16, .num_blocks = 10, .has_tokenizer = true};

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
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); }).key,
            "request.prompt");
  for (const int32_t bad : {-1, 100}) {
    r.prompt = {1, bad};
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_EQ(e.key, "request.prompt");
    EXPECT_EQ(e.location, "request.prompt[1]");
    EXPECT_TRUE(contains(e.message, std::to_string(bad)));
    EXPECT_TRUE(contains(e.expected, "0..99"));
  }
}

TEST(RequestCheck, CountsMustBeInRange) {
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{65537}, INT64_MAX}) {
    Request r = valid();
    r.num_samples = bad;
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_EQ(e.key, "request.num_samples");
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
  const Error e = expect_error(Code::kResourceExhausted, [&] {
    check_request(r, {100, 64, 16, 1, true});
  });
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
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); }).key,
            "request.resume");
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
            "request.resume.ids[3]");
}

TEST(RequestCheck, PriorityIsBounded) {
  Request r = valid();
  r.priority = INT64_MIN;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).key,
            "request.priority");
  r.priority = 1;
  const Error fcfs = expect_error(Code::kConflict, [&] { check_request(r, kLimits); });
  EXPECT_EQ(fcfs.other_key, "engine.scheduling_policy");
  RequestLimits by_priority = kLimits;
  by_priority.policy = SchedulingPolicy::kPriority;
  check_request(r, by_priority);
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

TEST(RequestCheck, RulesNameIdsOfTheVocabulary) {
  const auto refused = [](const char* key, const char* location, const Request& r) {
    const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); });
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.location, location);
    EXPECT_TRUE(contains(e.message, "100"));
  };
  Request r = valid();
  r.sampling.allowed_token_ids = {99, 0, 100};
  refused("sampling.allowed_token_ids", "sampling.allowed_token_ids[2]", r);
  r = valid();
  r.sampling.logit_bias = {{0, 1.0f}, {100, 1.0f}};
  refused("sampling.logit_bias", "sampling.logit_bias[1]", r);
  r.sampling.logit_bias = {{0, 1.0f}, {0, 1.0f}};
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); }).key,
            "sampling.logit_bias");
  r = valid();
  r.sampling.top_logprobs = 20;
  check_request(r, kLimits);
  RequestLimits small = kLimits;
  small.vocab = 12;
  r.prompt = {1};
  const Error e = expect_error(Code::kOutOfRange, [&] { check_request(r, small); });
  EXPECT_EQ(e.key, "sampling.logprobs");
  EXPECT_TRUE(contains(e.message, "0..12"));
}

TEST(RequestCheck, TheFewestTokensMustBeReachable) {
  const auto refused = [](Code code, const Request& r, const RequestLimits& limits) {
    const Error e = expect_error(code, [&] { check_request(r, limits); });
    EXPECT_EQ(e.key, "sampling.min_new_tokens");
    return e.message;
  };
  Request r = valid();
  r.min_new_tokens = 10;
  check_request(r, kLimits);
  r.min_new_tokens = 11;
  EXPECT_EQ(refused(Code::kConflict, r, kLimits),
            "sampling.min_new_tokens 11 exceeds sampling.max_new_tokens 10");
  r.min_new_tokens = -1;
  refused(Code::kOutOfRange, r, kLimits);
  r.min_new_tokens = 1;
  r.sampling.allowed_token_ids = {5, 6};
  r.stop_token_ids = {6};
  RequestLimits limits = kLimits;
  const std::vector<int32_t> eos = {5};
  limits.eos_ids = eos;
  EXPECT_TRUE(contains(refused(Code::kConflict, r, limits), "is a stop id"));
  r.ignore_eos = true;
  check_request(r, limits);
  r.ignore_eos = false;
  r.min_new_tokens = 0;
  check_request(r, limits);
  r.min_new_tokens = 1;
  r.sampling.allowed_token_ids.clear();
  check_request(r, limits);
  for (int32_t id = 0; id < 100; ++id) r.stop_token_ids.push_back(id);
  refused(Code::kConflict, r, limits);
}

TEST(RequestCheck, AResumedSampleHasAsManyTopIdsAsTheRequestAsksFor) {
  auto s = std::make_shared<Sample>();
  s->ids = {1, 2, 3};
  s->prompt_tokens = 1;
  s->logprobs = s->logprobs_sampled = {-1, -1};
  s->versions = {0, 0};
  s->loss_mask = {1, 1};
  Request r;
  r.resume = s;
  r.max_new_tokens = 5;
  r.min_new_tokens = 7;  // of the whole answer
  check_request(r, kLimits);
  r.sampling.top_logprobs = 2;
  Error e = expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); });
  EXPECT_EQ(e.key, "sampling.logprobs");
  s->num_top = 2;
  s->top_ids = {1, 2, 3, 4};
  s->top_logprobs = {0, -1, 0};
  e = expect_error(Code::kInvalidArgument, [&] { check_request(r, kLimits); });
  EXPECT_EQ(e.key, "request.resume");
  EXPECT_TRUE(contains(e.message, "top_logprobs has 3 entries for 2 generated tokens of 2"));
  s->top_logprobs.push_back(-1);
  check_request(r, kLimits);
}

}  // namespace
}  // namespace rl
