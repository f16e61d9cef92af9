// Bad requests and ends at any moment hurt nobody: while canaries run, what is wrong with a request
// is told by its name and leaves no trace, and a request may be ended in every state it can be in.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "rollout/engine_fixture.h"
#include "support/expect_error.h"
#include "text/tokenizer.h"

namespace rl::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = HUGE_VALF;

// What is wrong with a request, and the words of the error that tells it.
struct BadRequest {
  Code code;
  std::string key;
  std::vector<std::string> words;  // of message and expected value together
  std::function<void(Request&)> spoil;
};

Sample partial_sample() {
  Sample s;
  s.ids = {1, 2, 3, 4};
  s.prompt_tokens = 2;
  s.logprobs = s.logprobs_sampled = {-1, -2};
  s.versions = {0, 0};
  s.loss_mask = {1, 1};
  return s;
}

// Goes on from a sample with one thing wrong.
BadRequest bad_resume(Code code, const char* key, std::vector<std::string> words,
                      const std::function<void(Sample&)>& spoil) {
  return {code, key, std::move(words), [spoil](Request& r) {
            Sample s = partial_sample();
            spoil(s);
            r.prompt.clear();
            r.resume = std::make_shared<Sample>(s);
          }};
}

std::vector<BadRequest> bad_starts() {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return {
      {Code::kInvalidArgument,
       "request.prompt",
       {"no tokens"},
       [](Request& r) { r.prompt.clear(); }},
      {Code::kOutOfRange,
       "request.prompt",
       {"prompt[1]", "256", "0..255"},
       [](Request& r) {
         r.prompt = {1, 256};
       }},
      {Code::kOutOfRange,
       "request.prompt",
       {"prompt[0]", "-1"},
       [](Request& r) { r.prompt = {-1}; }},
      {Code::kOutOfRange,
       "request.prompt",
       {"-2147483648"},
       [](Request& r) {
         r.prompt = {1, std::numeric_limits<int32_t>::min()};
       }},
      {Code::kOutOfRange,
       "sampling.max_new_tokens",
       {"100000 tokens", "max_model_len 96"},
       [](Request& r) { r.prompt.assign(100000, 1); }},
      {Code::kOutOfRange,
       "sampling.max_new_tokens",
       {"94", "max_model_len 96"},
       [](Request& r) { r.max_new_tokens = 94; }},
      {Code::kOutOfRange,
       "sampling.max_new_tokens",
       {std::to_string(kMost), "max_model_len 96"},
       [](Request& r) { r.max_new_tokens = kMost; }},
      {Code::kOutOfRange,
       "sampling.max_new_tokens",
       {"is 0", "1.."},
       [](Request& r) { r.max_new_tokens = 0; }},
      {Code::kOutOfRange,
       "sampling.max_new_tokens",
       {"-9223372036854775808"},
       [](Request& r) { r.max_new_tokens = std::numeric_limits<int64_t>::min(); }},
      {Code::kResourceExhausted,
       "sampling.max_new_tokens",
       {"needs 5 KV blocks", "pool has 4"},
       [](Request& r) { r.max_new_tokens = 70; }},
      {Code::kOutOfRange,
       "request.num_samples",
       {"is 0", "1..65536"},
       [](Request& r) { r.num_samples = 0; }},
      {Code::kOutOfRange, "request.num_samples", {"is -3"}, [](Request& r) { r.num_samples = -3; }},
      {Code::kOutOfRange,
       "request.num_samples",
       {"65537", "1..65536"},
       [](Request& r) { r.num_samples = 65537; }},
      {Code::kOutOfRange,
       "request.num_samples",
       {std::to_string(kMost)},
       [](Request& r) { r.num_samples = kMost; }},
      {Code::kOutOfRange,
       "request.priority",
       {"1048577", "-1048576..1048576"},
       [](Request& r) { r.priority = (1 << 20) + 1; }},
  };
}

BadRequest out_of_range(const char* key, std::vector<std::string> words,
                        const std::function<void(SamplingParams&)>& spoil) {
  return {Code::kOutOfRange, key, std::move(words), [spoil](Request& r) { spoil(r.sampling); }};
}

std::vector<BadRequest> bad_sampling() {
  std::vector<BadRequest> all = {
      out_of_range("sampling.temperature", {"is 1.0", "e-07", "at least 1e-6"},
                   [](SamplingParams& p) { p.temperature = 1e-7f; }),
      out_of_range("sampling.top_p", {"0"}, [](SamplingParams& p) { p.top_p = 0; }),
      out_of_range("sampling.top_p", {"nan"}, [](SamplingParams& p) { p.top_p = kNan; }),
      out_of_range("sampling.min_p", {"1.5"}, [](SamplingParams& p) { p.min_p = 1.5f; }),
      out_of_range("sampling.top_k", {"-1"}, [](SamplingParams& p) { p.top_k = -1; }),
      out_of_range("sampling.repetition_penalty", {"inf"},
                   [](SamplingParams& p) { p.repetition_penalty = kInf; }),
      out_of_range("sampling.presence_penalty", {"2.5", "-2..2"},
                   [](SamplingParams& p) { p.presence_penalty = 2.5f; }),
      out_of_range("sampling.frequency_penalty", {"nan", "-2..2"},
                   [](SamplingParams& p) { p.frequency_penalty = kNan; }),
      out_of_range("sampling.logprobs", {"21", "0..20"},
                   [](SamplingParams& p) { p.top_logprobs = 21; }),
      out_of_range("sampling.logit_bias", {"256", "0..255"},
                   [](SamplingParams& p) {
                     p.logit_bias = {{256, 1.0f}};
                   }),
      out_of_range("sampling.logit_bias", {"nan", "-100..100"},
                   [](SamplingParams& p) {
                     p.logit_bias = {{5, kNan}};
                   }),
      out_of_range("sampling.allowed_token_ids", {"256", "0..255"},
                   [](SamplingParams& p) {
                     p.allowed_token_ids = {3, 256};
                   }),
  };
  for (const float bad : {-1.0f, -0.5e-3f, kNan, kInf, -kInf}) {
    all.push_back(out_of_range("sampling.temperature", {str(bad), "0 (greedy)"},
                               [bad](SamplingParams& p) { p.temperature = bad; }));
  }
  return all;
}

std::vector<BadRequest> bad_stops() {
  return {
      {Code::kInvalidArgument,
       "sampling.stop",
       {"sampling.stop[1] is empty"},
       [](Request& r) {
         r.stop_strings = {"x", ""};
       }},
      {Code::kInvalidArgument,
       "sampling.stop",
       {"UTF-8"},
       [](Request& r) { r.stop_strings = {"\xc3"}; }},
      {Code::kOutOfRange,
       "sampling.stop_token_ids",
       {"256", "0..255"},
       [](Request& r) { r.stop_token_ids = {256}; }},
      {Code::kOutOfRange,
       "sampling.stop_token_ids",
       {"-1"},
       [](Request& r) {
         r.stop_token_ids = {0, -1};
       }},
      {Code::kConflict,
       "sampling.min_new_tokens",
       {"9", "max_new_tokens 8"},
       [](Request& r) { r.min_new_tokens = 9; }},
      {Code::kOutOfRange,
       "sampling.min_new_tokens",
       {"-1"},
       [](Request& r) { r.min_new_tokens = -1; }},
      {Code::kConflict,
       "sampling.min_new_tokens",
       {"every token that may be sampled is a stop id"},
       [](Request& r) {
         r.min_new_tokens = 1;
         r.sampling.allowed_token_ids = r.stop_token_ids = {7};
       }},
  };
}

std::vector<BadRequest> bad_resumes() {
  const auto broken = [](std::vector<std::string> words, const std::function<void(Sample&)>& f) {
    return bad_resume(Code::kInvalidArgument, "request.resume", std::move(words), f);
  };
  return {
      broken({"prompt_tokens is 0 of 4 ids"}, [](Sample& s) { s.prompt_tokens = 0; }),
      broken({"prompt_tokens is 5 of 4 ids"}, [](Sample& s) { s.prompt_tokens = 5; }),
      broken({"prompt_tokens is 2 of 0 ids"}, [](Sample& s) { s = Sample(), s.prompt_tokens = 2; }),
      broken({"logprobs has 1 entries for 2"}, [](Sample& s) { s.logprobs.pop_back(); }),
      broken({"logprobs holds nan at index 1"}, [](Sample& s) { s.logprobs[1] = kNan; }),
      broken({"logprobs_sampled holds -inf"}, [](Sample& s) { s.logprobs_sampled[0] = -kInf; }),
      broken({"versions has 3 entries"}, [](Sample& s) { s.versions.push_back(0); }),
      broken({"loss_mask holds 2"}, [](Sample& s) { s.loss_mask[0] = 2; }),
      broken({"temperature is nan"}, [](Sample& s) { s.temperature = kNan; }),
      broken({"top_ids has 0 entries"}, [](Sample& s) { s.num_top = 3; }),
      broken({"ids holds -7 at index 3"}, [](Sample& s) { s.ids[3] = -7; }),
      bad_resume(Code::kOutOfRange, "request.resume.ids",
                 {"request.resume.ids[3]", "256", "0..255"}, [](Sample& s) { s.ids[3] = 256; }),
      bad_resume(Code::kInvalidArgument, "sampling.temperature", {"is 1", "at 0.5"},
                 [](Sample& s) { s.temperature = 0.5f; }),
      bad_resume(Code::kInvalidArgument, "sampling.logprobs", {"is 0", "has 1"},
                 [](Sample& s) {
                   s.num_top = 1;
                   s.top_ids = {1, 2};
                   s.top_logprobs = {0, 0};
                 }),
      bad_resume(Code::kOutOfRange, "sampling.max_new_tokens",
                 {"a sequence of 90 tokens", "max_model_len 96"},
                 [](Sample& s) {
                   s.ids.assign(90, 1);
                   s.prompt_tokens = 90;
                   s.logprobs = s.logprobs_sampled = {};
                   s.versions = {};
                   s.loss_mask = {};
                 }),
      {Code::kInvalidArgument,
       "request.resume",
       {"a prompt of 3 tokens and 1 samples"},
       [](Request& r) { r.resume = std::make_shared<Sample>(partial_sample()); }},
      {Code::kInvalidArgument,
       "request.resume",
       {"2 samples"},
       [](Request& r) {
         r.prompt.clear();
         r.num_samples = 2;
         r.resume = std::make_shared<Sample>(partial_sample());
       }},
  };
}

std::vector<BadRequest> all_bad_requests() {
  std::vector<BadRequest> all = bad_starts();
  for (const auto& more : {bad_sampling(), bad_stops(), bad_resumes()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

class BadRequests : public ::testing::Test {
 protected:
  // Requests of every kind of sampling, which must not notice what happens beside them.
  std::vector<Request> canaries() const {
    std::vector<Request> all = mixed_requests(6, tiny_.model->config().vocab, 8);
    for (Request& r : all) {
      r.prompt.resize(std::min<size_t>(r.prompt.size(), 20));
      r.max_new_tokens = std::min<int64_t>(r.max_new_tokens + 10, 30);
      r.min_new_tokens = std::min<int64_t>(r.min_new_tokens, 4);
    }
    return all;
  }
  SampleMap canaries_alone() const {
    SampleMap all;
    for (const Request& r : canaries()) {
      TestEngine test(tiny_, {});
      all.merge(test.run({r}));
    }
    return all;
  }

  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 2};
};

void expect_told(const Error& e, const BadRequest& bad) {
  EXPECT_EQ(e.key, bad.key) << e.message;
  for (const std::string& word : bad.words) {
    EXPECT_TRUE(contains(e.message + " | " + e.expected, word));
  }
}

bool same_load(const EngineStats& a, const EngineStats& b) {
  return a.running == b.running && a.waiting == b.waiting && a.blocks_in_use == b.blocks_in_use &&
         a.preemptions == b.preemptions && a.forwards == b.forwards;
}

TEST_F(BadRequests, EachIsNamedAndHurtsNobody) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      real_fs(), std::string(RL_FIXTURES) + "/tokenizers/tiny_gpt2.tokenizer.json");
  TestEngine test(tiny_, {.max_num_seqs = 5, .max_num_batched_tokens = 24, .max_model_len = 96}, 4,
                  &tokenizer);
  const std::vector<BadRequest> all = all_bad_requests();
  for (const Request& r : canaries()) test.engine.submit(r);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 2 == 0) {
      ASSERT_TRUE(test.engine.step()) << "canaries run beside every bad request";
    }
    const EngineStats before = test.engine.stats();
    Request r = make_request({1, 2, 3}, 8, 1.0f, 900);
    all[i].spoil(r);
    expect_told(expect_error(all[i].code, [&] { test.engine.submit(r); }), all[i]);
    EXPECT_TRUE(same_load(test.engine.stats(), before)) << all[i].key;
  }
  expect_same_samples(canaries_alone(), test.run());
  EXPECT_TRUE(test.engine.take_errors().empty());
  expect_idle(test.engine);
}

TEST_F(BadRequests, WithoutATokenizerStopStringsAreRefused) {
  TestEngine test(tiny_, {});
  Request r = make_request({1}, 2);
  r.stop_strings = {"x"};
  const Error e = expect_error(Code::kFailedPrecondition, [&] { test.engine.submit(r); });
  EXPECT_EQ(e.key, "sampling.stop");
}

// A victim beside the canaries, brought to a state and ended there.
struct EndCase {
  const char* state;
  EngineOptions options;
  int64_t num_blocks;
  Request victim;
  bool victim_first;
  // True when the victim has come to the state.
  std::function<bool(const EngineStats& before, const EngineStats& now)> reached;
};

Request victim_request(size_t prompt, int64_t samples) {
  Request r = make_request(std::vector<int32_t>(prompt, 77), 40, 1.0f, 900);
  for (size_t i = 0; i < prompt; ++i) r.prompt[i] = static_cast<int32_t>(i * 7 % 256);
  r.num_samples = samples;
  return r;
}

std::vector<EndCase> end_cases() {
  const auto at_once = [](const EngineStats&, const EngineStats&) { return true; };
  const auto after = [](int64_t forwards) {
    return
        [forwards](const EngineStats&, const EngineStats& now) { return now.forwards >= forwards; };
  };
  const auto preempted = [](const EngineStats& before, const EngineStats& now) {
    return now.preemptions > before.preemptions;
  };
  const EngineOptions few = {.max_num_seqs = 3, .max_num_batched_tokens = 24};
  const EngineOptions chunks = {
      .max_num_seqs = 16, .max_num_batched_tokens = 32, .prefill_chunk = 4};
  EngineOptions swapping = chunks;
  swapping.swap_blocks = 32;
  return {
      {"submitted only", few, 64, victim_request(50, 3), false, at_once},
      {"waiting", few, 64, victim_request(50, 3), false, after(3)},
      {"prefilling", chunks, 64, victim_request(50, 1), true, after(3)},
      {"leader and followers", chunks, 64, victim_request(50, 4), true, after(3)},
      {"decoding", chunks, 64, victim_request(50, 1), true, after(20)},
      {"group decoding", chunks, 64, victim_request(50, 4), true, after(20)},
      {"preempted, computed anew", chunks, 14, victim_request(40, 2), false, preempted},
      {"preempted, swapped out", swapping, 14, victim_request(40, 2), false, preempted},
  };
}

TEST_F(BadRequests, AnEndInAnyStateGivesTheSamplesBackAndHurtsNobody) {
  const SampleMap alone = canaries_alone();
  for (const EndCase& c : end_cases()) {
    SCOPED_TRACE(c.state);
    TestEngine test(tiny_, c.options, c.num_blocks);
    uint64_t number = 0;
    if (c.victim_first) number = test.engine.submit(c.victim);
    for (const Request& r : canaries()) test.engine.submit(r);
    if (!c.victim_first) number = test.engine.submit(c.victim);
    EngineStats before = test.engine.stats(), now = before;
    while (!c.reached(before, now)) {
      before = now;
      ASSERT_TRUE(test.engine.step());
      now = test.engine.stats();
    }
    SampleMap all = test.take();
    EXPECT_EQ(all.count({900, 0}), 0u) << "the victim is unfinished";
    EXPECT_TRUE(test.engine.abort(number));
    EXPECT_FALSE(test.engine.abort(number)) << "it has ended";
    all.merge(test.run());
    int64_t ended = 0;
    std::erase_if(all, [&](const auto& entry) {
      const Sample& s = *entry.second;
      if (s.ordinal != 900) return false;
      ended += s.finish == FinishReason::kAborted ? 1 : 0;
      EXPECT_EQ(s.logprobs.size(), static_cast<size_t>(s.generated()));
      EXPECT_EQ(s.loss_mask.size(), s.logprobs.size());
      return true;
    });
    EXPECT_EQ(ended, c.victim.num_samples);
    expect_same_samples(alone, all);
    expect_idle(test.engine);
  }
}

TEST_F(BadRequests, AnEndOfNothingIsWithoutEffect) {
  TestEngine test(tiny_, {});
  EXPECT_FALSE(test.engine.abort(0)) << "never submitted";
  EXPECT_FALSE(test.engine.abort(std::numeric_limits<uint64_t>::max()));
  test.engine.abort_all();
  const uint64_t number = test.engine.submit(make_request({1, 2}, 3, 1.0f, 5));
  EXPECT_FALSE(test.engine.abort(number + 1));
  const SampleMap samples = test.run();
  EXPECT_EQ(samples.at({5, 0})->finish, FinishReason::kLength);
  EXPECT_FALSE(test.engine.abort(number)) << "finished and taken";
  test.engine.submit(make_request({1, 2}, 3));
  while (!test.engine.idle()) test.engine.step();
  EXPECT_FALSE(test.engine.abort(number + 1)) << "finished, not yet taken";
  EXPECT_EQ(test.take().size(), 1u);
  expect_idle(test.engine);
}

// What was ended in any state goes on to what it would have become.
TEST_F(BadRequests, WhatWasEndedGoesOnToTheSameEnd) {
  const EngineOptions options = {
      .max_num_seqs = 16, .max_num_batched_tokens = 32, .prefill_chunk = 4, .swap_blocks = 8};
  SampleMap whole;
  {
    TestEngine test(tiny_, {});
    whole = test.run({victim_request(50, 4)});
  }
  for (const int steps : {0, 1, 5, 14, 30}) {
    TestEngine test(tiny_, options, 12);
    const uint64_t number = test.engine.submit(victim_request(50, 4));
    for (int i = 0; i < steps; ++i) test.engine.step();
    ASSERT_TRUE(test.engine.abort(number));
    for (const auto& [key, s] : test.take()) {
      Request more = victim_request(50, 1);
      more.prompt.clear();
      more.resume = s;
      more.max_new_tokens = 40 - s->generated();
      test.engine.submit(more);
    }
    expect_same_samples(whole, test.run());
  }
}

}  // namespace
}  // namespace rl::testing
