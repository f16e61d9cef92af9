// What the sampling rules of a request do to its samples, and what they leave alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/fs.h"
#include "rollout/engine_fixture.h"
#include "text/tokenizer.h"

namespace rl::testing {
namespace {

class SamplingRules : public ::testing::Test {
 protected:
  Request greedy(int64_t max_new_tokens = 24) const {
    return make_request({10, 20, 30}, max_new_tokens);
  }
  Request random(int64_t max_new_tokens = 24) const {
    return make_request({10, 20, 30}, max_new_tokens, 1.0f, 4);
  }
  Sample run(const Request& r, const Tokenizer* tokenizer = nullptr) const {
    TestEngine test(tiny_, {}, 64, tokenizer);
    return *test.run({r}).begin()->second;
  }
  static std::vector<int32_t> answer(const Sample& s) {
    return {s.ids.begin() + s.prompt_tokens, s.ids.end()};
  }

  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 2};
  const int32_t eos_ = tiny_.model->config().eos_ids.at(0);
};

// The greedy choice is predicted from the most probable ids of the bare row and the answer so far,
// where no id outside them can win.
void expect_penalised_greedy(const Sample& s, const SamplingParams& p) {
  std::map<int32_t, int> counts;
  int changed = 0;
  for (size_t t = 0; t < s.logprobs.size(); ++t) {
    const int32_t* ids = &s.top_ids[t * s.num_top];
    const float* logprobs = &s.top_logprobs[t * s.num_top];
    double best = -HUGE_VAL;
    int32_t best_id = -1;
    for (uint32_t k = 0; k < s.num_top; ++k) {
      const int count = counts[ids[k]];
      const double x =
          logprobs[k] - p.frequency_penalty * count - (count > 0 ? p.presence_penalty : 0.0);
      if (x > best) best = x, best_id = ids[k];
    }
    const int32_t id = s.ids[static_cast<size_t>(s.prompt_tokens) + t];
    if (best > logprobs[s.num_top - 1]) {
      EXPECT_EQ(id, best_id) << "token " << t;
      changed += id != ids[0] ? 1 : 0;
    }
    ++counts[id];
  }
  EXPECT_GT(changed, 0);
}

TEST_F(SamplingRules, PresenceAndFrequencyPenaltiesCountTheResponse) {
  const Sample bare = run(greedy());
  for (const auto& [presence, frequency] :
       {std::pair{1.5f, 0.0f}, std::pair{0.0f, 0.5f}, std::pair{0.3f, 0.2f}}) {
    Request r = greedy();
    r.sampling.presence_penalty = presence;
    r.sampling.frequency_penalty = frequency;
    r.sampling.top_logprobs = 20;
    const Sample s = run(r);
    EXPECT_NE(s.ids, bare.ids);
    expect_penalised_greedy(s, r.sampling);
  }
  Request r = greedy();
  r.sampling.repetition_penalty = 1.5f;
  EXPECT_NE(run(r).ids, bare.ids);
}

TEST_F(SamplingRules, AResponseWithoutRepeatsIsNotPenalised) {
  Request r = random(1);
  const Sample bare = run(r);
  r.sampling.presence_penalty = 2;
  r.sampling.frequency_penalty = 2;
  const Sample s = run(r);
  EXPECT_EQ(s.ids, bare.ids) << "the prompt does not count";
  EXPECT_EQ(s.logprobs, bare.logprobs);
}

TEST_F(SamplingRules, OnlyAllowedIdsAreSampled) {
  Request r = random(40);
  r.sampling.allowed_token_ids = {50, 7, 31, 7};
  const Sample s = run(r);
  for (const int32_t id : answer(s)) EXPECT_TRUE(id == 50 || id == 7 || id == 31) << id;
  for (size_t t = 0; t < s.logprobs.size(); ++t) {
    EXPECT_GT(s.logprobs_sampled[t], s.logprobs[t]);
  }
  EXPECT_EQ(s.finish, FinishReason::kLength);
}

TEST_F(SamplingRules, ABiasForcesAnIdOrKeepsItAway) {
  Request r = random();
  const Sample bare = run(r);
  r.sampling.logit_bias = {{77, 100.0f}};
  EXPECT_EQ(answer(run(r)), std::vector<int32_t>(24, 77));
  r.sampling.logit_bias = {{bare.ids[3], -100.0f}};
  const Sample s = run(r);
  EXPECT_EQ(std::count(s.ids.begin() + 3, s.ids.end(), bare.ids[3]), 0);
}

TEST_F(SamplingRules, StopIdsAreForbiddenUntilTheFewestTokensAreThere) {
  Request r = random();
  r.ignore_eos = false;
  r.sampling.logit_bias = {{eos_, 100.0f}};
  EXPECT_EQ(answer(run(r)), std::vector<int32_t>{eos_});
  for (const int64_t least : {1, 4, 23}) {
    r.min_new_tokens = least;
    const std::vector<int32_t> ids = answer(run(r));
    ASSERT_EQ(static_cast<int64_t>(ids.size()), least + 1);
    EXPECT_EQ(std::find(ids.begin(), ids.end(), eos_), ids.end() - 1);
  }
  r.min_new_tokens = 24;
  EXPECT_EQ(run(r).finish, FinishReason::kLength);
  r.min_new_tokens = 4;
  r.ignore_eos = true;
  EXPECT_EQ(answer(run(r)), std::vector<int32_t>(24, eos_)) << "an ignored eos ends nothing";
  r.stop_token_ids = {eos_};
  EXPECT_EQ(answer(run(r)).size(), 5u);
}

TEST_F(SamplingRules, TheFewestTokensCountFromThePromptOrTheLastTokenOfAnEnvironment) {
  Request r = random(6);
  const Sample first = run(r);
  auto more = std::make_shared<Sample>(first);
  r.prompt.clear();
  r.resume = more;
  r.ignore_eos = false;
  r.min_new_tokens = 8;
  r.sampling.logit_bias = {{eos_, 100.0f}};
  EXPECT_EQ(answer(run(r)).size(), 8u + 1) << "6 and then 2";
  more->loss_mask[1] = 0;  // the answer has 4 tokens
  r.max_new_tokens = 12;
  EXPECT_EQ(answer(run(r)).size(), 6u + 4 + 1);
}

TEST_F(SamplingRules, AStopStringEndsNothingBeforeTheFewestTokens) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      real_fs(), std::string(RL_FIXTURES) + "/tokenizers/tiny_gpt2.tokenizer.json");
  int32_t id = 0;
  while (tokenizer.token_bytes(id) != "x") ++id;
  Request r = random();
  r.sampling.logit_bias = {{id, 100.0f}};
  r.stop_strings = {"xx", "xxxx"};
  EXPECT_EQ(answer(run(r, &tokenizer)).size(), 2u);
  r.min_new_tokens = 5;
  const Sample s = run(r, &tokenizer);
  EXPECT_EQ(answer(s).size(), 6u);
  EXPECT_EQ(s.finish, FinishReason::kStopString);
}

TEST_F(SamplingRules, MostProbableIdsChangeNoSampleAndComeForEveryToken) {
  for (Request r : {greedy(), random()}) {
    const Sample bare = run(r);
    EXPECT_TRUE(bare.top_ids.empty());
    r.sampling.top_logprobs = 3;
    const Sample s = run(r);
    EXPECT_EQ(s.ids, bare.ids);
    EXPECT_EQ(s.logprobs, bare.logprobs);
    EXPECT_EQ(s.logprobs_sampled, bare.logprobs_sampled);
    ASSERT_EQ(s.num_top, 3u);
    ASSERT_EQ(s.top_ids.size(), 3 * s.logprobs.size());
    ASSERT_EQ(s.top_logprobs.size(), 3 * s.logprobs.size());
    for (size_t t = 0; t < s.logprobs.size(); ++t) {
      const int32_t id = s.ids[static_cast<size_t>(s.prompt_tokens) + t];
      for (size_t k = 3 * t; k < 3 * t + 3; ++k) {
        if (s.top_ids[k] == id) {
          EXPECT_EQ(s.top_logprobs[k], s.logprobs[t]);
        }
        EXPECT_LE(s.top_logprobs[k], s.top_logprobs[k == 3 * t ? k : k - 1]);
      }
      EXPECT_LE(s.logprobs[t], s.top_logprobs[3 * t]);
    }
  }
}

}  // namespace
}  // namespace rl::testing
