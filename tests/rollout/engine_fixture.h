// An engine over a fixture model with its own KV pool and workspace, and requests to feed it.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "rollout/engine.h"
#include "support/compare_values.h"
#include "support/tiny_model.h"

namespace rl::testing {

using SampleKey = std::pair<uint64_t, uint32_t>;  // ordinal, slot
using SampleMap = std::map<SampleKey, SamplePtr>;

class TestEngine {
 public:
  TestEngine(const TinyModel& tiny, const EngineOptions& options, int64_t num_blocks = 1024,
             const Tokenizer* tokenizer = nullptr, const Tracer* tracer = nullptr)
      : kv_arena_("test kv", num_blocks * tiny.model->kv_shape().block_bytes(), Touch::kNow,
                  place_on(*tiny.compute)),
        workspace_("test engine", engine_workspace_bytes(*tiny.model, options), Touch::kNow,
                   place_on(*tiny.compute)),
        engine(*tiny.model, options, {tiny.model->kv_shape(), kv_arena_.data(), num_blocks},
               workspace_.data(), tokenizer, tracer) {}

  // Runs everything that was submitted; finished samples by key.
  SampleMap run() {
    while (engine.step()) {
    }
    return take();
  }
  SampleMap run(const std::vector<Request>& requests) {
    for (const Request& r : requests) engine.submit(r);
    return run();
  }
  SampleMap take() {
    SampleMap samples;
    for (const SamplePtr& s : engine.take_finished()) {
      EXPECT_TRUE(samples.emplace(SampleKey{s->ordinal, s->slot}, s).second) << "a sample twice";
    }
    return samples;
  }

 private:
  Arena kv_arena_, workspace_;

 public:
  Engine engine;
};

inline Request make_request(std::vector<int32_t> prompt, int64_t max_new_tokens,
                            float temperature = 0.0f, uint64_t ordinal = 0) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_new_tokens = max_new_tokens;
  r.sampling.temperature = temperature;
  r.ordinal = ordinal;
  r.ignore_eos = true;
  r.seed = 20;
  return r;
}

// Rules of every kind in turn; nothing random, so that it may be added to any request.
inline void add_rules(Request& r, int i, int64_t vocab) {
  const auto id = [vocab](int n) { return static_cast<int32_t>(n % vocab); };
  if (i % 5 == 2) r.sampling.presence_penalty = 0.6f;
  if (i % 7 == 5) r.sampling.frequency_penalty = -0.4f;
  if (i % 6 == 1) r.sampling.frequency_penalty = 0.7f;
  if (i % 8 == 4) r.sampling.logit_bias = {{id(i * 5), 3.0f}, {id(i * 5 + 1), -2.0f}};
  if (i % 9 == 4) {
    for (int k = 0; k < 30; ++k) r.sampling.allowed_token_ids.push_back(id(i + k * 7));
  }
  if (i % 4 == 1) r.min_new_tokens = std::min<int64_t>(r.max_new_tokens, 1 + i % 7);
  if (i % 10 == 3) r.sampling.top_logprobs = 1 + i % 20;
}

// Prompts of 1..60 ids, groups of 1..4, with every kind of sampling.
inline std::vector<Request> mixed_requests(int count, int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  const auto below = [&rng](unsigned n) { return static_cast<int32_t>(rng() % n); };
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt(static_cast<size_t>(1 + below(60)));
    for (int32_t& id : prompt) id = below(static_cast<unsigned>(vocab));
    const float temperatures[] = {1.0f, 0.7f, 1.0f, 0.0f};
    Request r = make_request(std::move(prompt), 1 + below(40), temperatures[i % 4],
                             static_cast<uint64_t>(i) * 3);
    r.num_samples = 1 + below(4);
    r.ignore_eos = i % 2 == 0;
    if (i % 5 == 1) r.sampling.top_k = 1 + below(50);
    if (i % 5 == 2) r.sampling.top_p = 0.8f;
    if (i % 5 == 3) r.sampling.min_p = 0.02f;
    if (i % 7 == 3) r.sampling.repetition_penalty = 1.2f;
    if (i % 3 == 1) r.purpose = Purpose::kEval;
    add_rules(r, i, vocab);
    requests.push_back(std::move(r));
  }
  return requests;
}

inline void expect_same_sample(const Sample& a, const Sample& b) {
  EXPECT_EQ(a.ids, b.ids) << "ordinal " << a.ordinal << " slot " << a.slot;
  EXPECT_TRUE(same_bits(a.logprobs, b.logprobs)) << "ordinal " << a.ordinal << " slot " << a.slot;
  EXPECT_TRUE(same_bits(a.logprobs_sampled, b.logprobs_sampled));
  EXPECT_EQ(a.top_ids, b.top_ids);
  EXPECT_TRUE(same_bits(a.top_logprobs, b.top_logprobs));
  EXPECT_EQ(a.finish, b.finish);
  EXPECT_EQ(a.temperature, b.temperature);
}

inline void expect_same_samples(const SampleMap& a, const SampleMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, sample] : a) {
    const auto other = b.find(key);
    ASSERT_NE(other, b.end()) << "ordinal " << key.first << " slot " << key.second;
    expect_same_sample(*sample, *other->second);
  }
}

inline void expect_idle(const Engine& engine) {
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(engine.stats().blocks_in_use, 0);
  EXPECT_EQ(engine.stats().running, 0);
  EXPECT_EQ(engine.stats().waiting, 0);
}

}  // namespace rl::testing
