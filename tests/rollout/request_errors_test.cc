// What is wrong with a request or an engine's options is said in the fields of the error: the key,
// what was expected and where. One row per check and bound.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "rollout/request_check.h"
#include "support/expect_error.h"

namespace rl {
namespace {

constexpr int64_t kMost32 = std::numeric_limits<int32_t>::max();
constexpr RequestLimits kLimits = {
    .vocab = 100, .max_model_len = 64, .block_size = 16, .num_blocks = 10, .has_tokenizer = true};

struct BadOptions {
  Code code;
  const char *key, *expected, *message;
  EngineOptions options;
};

constexpr BadOptions kBadOptions[] = {
    {Code::kOutOfRange,
     "engine.max_num_seqs",
     "integer 1..2147483647",
     "engine.max_num_seqs is 0, outside 1..2147483647",
     {.max_num_seqs = 0}},
    {Code::kOutOfRange,
     "engine.max_num_seqs",
     "integer 1..2147483647",
     "engine.max_num_seqs is 2147483648, outside 1..2147483647",
     {.max_num_seqs = kMost32 + 1}},
    {Code::kOutOfRange,
     "engine.max_num_batched_tokens",
     "integer 1..2147483647",
     "engine.max_num_batched_tokens is 0, outside 1..2147483647",
     {.max_num_batched_tokens = 0}},
    {Code::kOutOfRange,
     "engine.max_num_batched_tokens",
     "integer 1..2147483647",
     "engine.max_num_batched_tokens is 2147483648, outside 1..2147483647",
     {.max_num_batched_tokens = kMost32 + 1}},
    {Code::kOutOfRange,
     "engine.prefill_chunk",
     "integer 0..2147483647",
     "engine.prefill_chunk is -1, outside 0..2147483647",
     {.prefill_chunk = -1}},
    {Code::kOutOfRange,
     "engine.prefill_chunk",
     "integer 0..2147483647",
     "engine.prefill_chunk is 2147483648, outside 0..2147483647",
     {.prefill_chunk = kMost32 + 1}},
    {Code::kOutOfRange,
     "engine.max_model_len",
     "integer 0..128",
     "engine.max_model_len is -1, outside 0..128",
     {.max_model_len = -1}},
    {Code::kOutOfRange,
     "engine.max_model_len",
     "integer 0..128",
     "engine.max_model_len is 129, outside 0..128",
     {.max_model_len = 129}},
    {Code::kOutOfRange,
     "engine.swap_blocks",
     "integer 0..2147483647",
     "engine.swap_blocks is -2, outside 0..2147483647",
     {.swap_blocks = -2}},
    {Code::kOutOfRange,
     "engine.swap_blocks",
     "integer 0..2147483647",
     "engine.swap_blocks is 2147483648, outside 0..2147483647",
     {.swap_blocks = kMost32 + 1}},
    {Code::kOutOfRange,
     "pipeline.partial_rollout_max_aborts",
     "integer 0..2147483647",
     "pipeline.partial_rollout_max_aborts is -3, outside 0..2147483647",
     {.max_aborts = -3}},
    {Code::kOutOfRange,
     "pipeline.partial_rollout_max_aborts",
     "integer 0..2147483647",
     "pipeline.partial_rollout_max_aborts is 2147483648, outside 0..2147483647",
     {.max_aborts = kMost32 + 1}},
    {Code::kOutOfRange,
     "engine.kv_watermark",
     "number in [0, 1)",
     "engine.kv_watermark is 1, outside [0, 1)",
     {.kv_watermark = 1}},
    {Code::kConflict,
     "engine.max_num_batched_tokens",
     "at least engine.max_num_seqs, 9",
     "engine.max_num_batched_tokens 8 is below engine.max_num_seqs 9, so not every running "
     "sequence could get a token per step",
     {.max_num_seqs = 9, .max_num_batched_tokens = 8}},
    {Code::kConflict,
     "engine.chunked_prefill",
     "engine.prefill_chunk 0",
     "engine.chunked_prefill is off, but engine.prefill_chunk is 1",
     {.prefill_chunk = 1, .chunked_prefill = false}},
    {Code::kConflict,
     "engine.chunked_prefill",
     "engine.max_num_batched_tokens of at least 128",
     "engine.chunked_prefill is off, but engine.max_num_batched_tokens 127 is below "
     "engine.max_model_len 128",
     {.max_num_batched_tokens = 127, .chunked_prefill = false}},
    {Code::kConflict,
     "engine.chunked_prefill",
     "engine.max_num_batched_tokens of at least 100",
     "engine.chunked_prefill is off, but engine.max_num_batched_tokens 99 is below "
     "engine.max_model_len 100",
     {.max_num_batched_tokens = 99, .max_model_len = 100, .chunked_prefill = false}},
};

TEST(EngineOptionsErrors, EachNamesItsKeyRangeAndValue) {
  for (const BadOptions& bad : kBadOptions) {
    const Error e = expect_error(bad.code, [&] { check_engine_options(bad.options, 128); });
    EXPECT_EQ(e.key, bad.key);
    EXPECT_EQ(e.expected, bad.expected);
    EXPECT_EQ(e.message, bad.message);
  }
}

TEST(EngineOptionsErrors, TheBoundsThemselvesAreAccepted) {
  const EngineOptions all[] = {
      {.max_num_seqs = 1, .max_num_batched_tokens = 1},
      {.max_num_seqs = kMost32, .max_num_batched_tokens = kMost32},
      {.max_num_seqs = 9, .max_num_batched_tokens = 9},
      {.prefill_chunk = kMost32},
      {.max_model_len = 1},
      {.max_model_len = 128},
      {.swap_blocks = kMost32},
      {.kv_watermark = 0},
      {.kv_watermark = 0.999},
      {.max_aborts = kMost32},
      {.max_num_batched_tokens = 128, .chunked_prefill = false},
      {.max_num_batched_tokens = 100, .max_model_len = 100, .chunked_prefill = false},
  };
  for (const EngineOptions& options : all) EXPECT_NO_THROW(check_engine_options(options, 128));
}

Request valid() {
  Request r;
  r.prompt = {1, 2, 99};
  r.max_new_tokens = 10;
  return r;
}

struct BadRequest {
  Code code;
  const char *key, *expected, *message;
  std::function<void(Request&)> spoil;
};

void expect_refused(const BadRequest& bad, const RequestLimits& limits = kLimits) {
  Request r = valid();
  bad.spoil(r);
  const Error e = expect_error(bad.code, [&] { check_request(r, limits); });
  EXPECT_EQ(e.key, bad.key);
  EXPECT_EQ(e.expected, bad.expected);
  EXPECT_EQ(e.message, bad.message);
}

TEST(RequestErrors, ARequestOfItsOwnNamesKeyRangeAndValue) {
  const BadRequest all[] = {
      {Code::kInvalidArgument, "request.prompt", "at least one token id",
       "the prompt has no tokens", [](Request& r) { r.prompt.clear(); }},
      {Code::kOutOfRange, "request.num_samples", "integer 1..65536",
       "request.num_samples is 0, outside 1..65536", [](Request& r) { r.num_samples = 0; }},
      {Code::kOutOfRange, "sampling.max_new_tokens", "prompt + max_new_tokens at most 64",
       "a prompt of 3 tokens and sampling.max_new_tokens 62 together exceed engine.max_model_len "
       "64",
       [](Request& r) { r.max_new_tokens = 62; }},
      {Code::kOutOfRange, "sampling.max_new_tokens", "prompt + max_new_tokens at most 64",
       "a prompt of 64 tokens and sampling.max_new_tokens 1 together exceed engine.max_model_len "
       "64",
       [](Request& r) {
         r.prompt.assign(64, 1);
         r.max_new_tokens = 1;
       }},
      {Code::kOutOfRange, "sampling.stop_token_ids", "integer 0..99",
       "sampling.stop_token_ids[1] is token id 100, outside the vocabulary of 100 ids",
       [](Request& r) {
         r.stop_token_ids = {99, 100};
       }},
      {Code::kConflict, "sampling.min_new_tokens", "at most sampling.max_new_tokens, 10",
       "sampling.min_new_tokens 11 exceeds sampling.max_new_tokens 10",
       [](Request& r) { r.min_new_tokens = 11; }},
      {Code::kConflict, "sampling.min_new_tokens",
       "an id that may be sampled and is not a stop id, or 0",
       "sampling.min_new_tokens is 2, but every token that may be sampled is a stop id",
       [](Request& r) {
         r.min_new_tokens = 2;
         r.sampling.allowed_token_ids = r.stop_token_ids = {4, 5};
       }},
      {Code::kInvalidArgument, "sampling.stop", "text of at least one character, in UTF-8",
       "sampling.stop[2] is empty",
       [](Request& r) {
         r.stop_strings = {"a", "b", ""};
       }},
  };
  for (const BadRequest& bad : all) expect_refused(bad);
}

TEST(RequestErrors, APriorityHasBoundsAndNeedsItsPolicy) {
  RequestLimits ranked = kLimits;
  ranked.policy = SchedulingPolicy::kPriority;
  for (const int64_t most : {int64_t{1} << 20, -(int64_t{1} << 20)}) {
    Request r = valid();
    r.priority = most;
    EXPECT_NO_THROW(check_request(r, ranked));
    const int64_t beyond = most > 0 ? most + 1 : most - 1;
    const std::string message = str("request.priority is ", beyond, ", outside -1048576..1048576");
    expect_refused({Code::kOutOfRange, "request.priority", "integer -1048576..1048576",
                    message.c_str(), [=](Request& request) { request.priority = beyond; }},
                   ranked);
  }
  expect_refused({Code::kConflict, "request.priority", "0, or engine.scheduling_policy = priority",
                  "request.priority is -1 but engine.scheduling_policy is fcfs, which has none",
                  [](Request& r) { r.priority = -1; }});
}

TEST(RequestErrors, ANeedForBlocksIsToldWithWhatThePoolHas) {
  RequestLimits small = kLimits;
  small.num_blocks = 2;
  expect_refused({Code::kResourceExhausted, "sampling.max_new_tokens", "at most 2 KV blocks",
                  "a sample of 3 prompt tokens and 31 new tokens needs 3 KV blocks of 16 tokens; "
                  "the pool has 2",
                  [](Request& r) { r.max_new_tokens = 31; }},
                 small);
}

TEST(RequestErrors, AnIdIsNamedByItsPlaceInTheList) {
  const auto location = [](const std::function<void(Request&)>& spoil) {
    Request r = valid();
    spoil(r);
    return expect_error(Code::kOutOfRange, [&] { check_request(r, kLimits); }).location;
  };
  EXPECT_EQ(location([](Request& r) { r.prompt = {1, 2, -1, 100}; }), "request.prompt[2]");
  EXPECT_EQ(location([](Request& r) { r.stop_token_ids = {0, -1}; }), "sampling.stop_token_ids[1]");
  EXPECT_EQ(location([](Request& r) { r.sampling.allowed_token_ids = {100}; }),
            "sampling.allowed_token_ids[0]");
  EXPECT_EQ(location([](Request& r) {
              r.sampling.logit_bias = {{1, 0.5f}, {2, 0.5f}, {100, 0.5f}};
            }),
            "sampling.logit_bias[2]");
}

// Two tokens of prompt and two that were generated, at temperature 1 with one top id each.
std::shared_ptr<Sample> begun() {
  auto s = std::make_shared<Sample>();
  s->ids = {1, 2, 3, 4};
  s->prompt_tokens = 2;
  s->logprobs = s->logprobs_sampled = {-1, -2};
  s->versions = {0, 0};
  s->loss_mask = {1, 1};
  s->num_top = 1;
  s->top_ids = {3, 4};
  s->top_logprobs = {-1, -2};
  return s;
}

TEST(RequestErrors, WhatDoesNotGoWithAResumedSampleIsTold) {
  const auto resume = [](const std::function<void(Request&)>& spoil) {
    return [=](Request& r) {
      r.prompt.clear();
      r.resume = begun();
      r.sampling.top_logprobs = 1;
      spoil(r);
    };
  };
  Request good = valid();
  resume([](Request&) {})(good);
  EXPECT_NO_THROW(check_request(good, kLimits));
  const BadRequest all[] = {
      {Code::kInvalidArgument, "request.resume", "no prompt and one sample",
       "a request that resumes a sample has a prompt of 1 tokens and 1 samples, expected no prompt "
       "and one sample",
       resume([](Request& r) { r.prompt = {1}; })},
      {Code::kInvalidArgument, "request.resume", "no prompt and one sample",
       "a request that resumes a sample has a prompt of 0 tokens and 2 samples, expected no prompt "
       "and one sample",
       resume([](Request& r) { r.num_samples = 2; })},
      {Code::kInvalidArgument, "sampling.temperature", "1",
       "sampling.temperature is 0.5, but the sample to resume was generated at 1",
       resume([](Request& r) { r.sampling.temperature = 0.5f; })},
      {Code::kInvalidArgument, "sampling.logprobs", "1",
       "sampling.logprobs is 2, but the sample to resume has 1 ids per token",
       resume([](Request& r) { r.sampling.top_logprobs = 2; })},
      {Code::kInvalidArgument, "sampling.logprobs", "1",
       "sampling.logprobs is 0, but the sample to resume has 1 ids per token",
       resume([](Request& r) { r.sampling.top_logprobs = 0; })},
      {Code::kOutOfRange, "sampling.max_new_tokens", "sequence + max_new_tokens at most 64",
       "a sequence of 4 tokens and sampling.max_new_tokens 61 together exceed engine.max_model_len "
       "64",
       resume([](Request& r) { r.max_new_tokens = 61; })},
  };
  for (const BadRequest& bad : all) expect_refused(bad);
}

TEST(RequestErrors, OneIdThatDoesNotStopIsEnough) {
  Request r = valid();
  r.min_new_tokens = 1;
  for (int32_t id = 0; id < 99; ++id) r.stop_token_ids.push_back(id);
  EXPECT_NO_THROW(check_request(r, kLimits)) << "id 99 is left";
  RequestLimits limits = kLimits;
  const std::vector<int32_t> eos = {99};
  limits.eos_ids = eos;
  expect_error(Code::kConflict, [&] { check_request(r, limits); });
  r.ignore_eos = true;
  EXPECT_NO_THROW(check_request(r, limits)) << "an ignored eos may be sampled";
  r.ignore_eos = false;
  r.stop_token_ids = {7};
  r.sampling.allowed_token_ids = {7, 8};
  EXPECT_NO_THROW(check_request(r, limits));
  r.sampling.allowed_token_ids = {7, 99};
  expect_error(Code::kConflict, [&] { check_request(r, limits); });
}

}  // namespace
}  // namespace rl
