// A prepared sampler draws without touching the heap, whatever the rules. operator new of the test
// program counts per thread.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "core/arena.h"
#include "rollout/sampler.h"
#include "support/random_values.h"

namespace {
thread_local int64_t allocations = 0;
}

void* operator new(size_t size) {
  ++allocations;
  if (void* const p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace rl::testing {
namespace {

constexpr int64_t kVocab = 1500;

int64_t allocations_of_draws(const SamplingParams& params, const std::vector<int32_t>& forbidden) {
  ModelConfig config;
  config.vocab = kVocab;
  config.hidden = 16;
  const Arena arena("test head", HeadBuffers::bytes(config, Dtype::kF32, 1, false));
  HeadBuffers head(config, Dtype::kF32, 1, false, arena.data());
  const std::vector<float> logits = random_values(kVocab, 4, 6.0f);
  std::copy(logits.begin(), logits.end(), head.z);
  for (int64_t t = 0; t < head.num_tiles; ++t) {
    const int64_t first = t * head.tile_width;
    head.tiles[t] = scale_and_measure(head.z + first, std::min(head.tile_width, kVocab - first),
                                      inv_temperature(params));
  }
  head.stats[0] = combine_tiles(head.tiles, head.num_tiles);
  Sampler sampler(kVocab, 1);
  sampler.prepare(params, !forbidden.empty());
  const std::vector<int32_t> ids = {1, 2, 3, 3, 900, 900, 900};
  const int64_t before = allocations;
  for (int i = 0; i < 50; ++i) {
    const TokenChoice c = sampler.choose(head, 0, {params, ids, 5, forbidden, i / 50.0}, 0);
    if (!c.finite) return -1;
  }
  return allocations - before;
}

TEST(SamplerAllocation, DrawsAllocateNothing) {
  SamplingParams plain, greedy, filtered, ruled;
  plain.top_logprobs = 20;
  greedy.temperature = 0;
  filtered.top_k = 100;
  filtered.top_p = 0.9f;
  filtered.min_p = 0.01f;
  ruled = filtered;
  ruled.temperature = 0.7f;
  ruled.repetition_penalty = 1.2f;
  ruled.presence_penalty = 0.5f;
  ruled.frequency_penalty = -0.5f;
  ruled.logit_bias = {{900, 3.0f}, {4, -3.0f}};
  for (int32_t id = 0; id < kVocab; id += 2) ruled.allowed_token_ids.push_back(id);
  ruled.top_logprobs = 7;
  for (const SamplingParams& params : {plain, greedy, filtered, ruled}) {
    EXPECT_EQ(allocations_of_draws(params, {}), 0);
    EXPECT_EQ(allocations_of_draws(params, {2, 900}), 0);
  }
}

}  // namespace
}  // namespace rl::testing
