// Engines on the emulated GPU: a sample has the same bits however requests are batched, cut into
// chunks, cached and swapped, and in whatever order the work of streams runs.
#include <gtest/gtest.h>

#include "cuda_models/emulated_gpu.h"
#include "reference/model_pass.h"
#include "rollout/engine_fixture.h"

namespace rl::testing {
namespace {

// Requests with filters, penalties and measured prompts, two of them with a common prefix.
SampleMap sampled(const TinyModel& tiny, const EngineOptions& options, int64_t blocks) {
  TestEngine test(tiny, options, blocks);
  for (uint64_t ordinal = 0; ordinal < 6; ++ordinal) {
    std::vector<int32_t> prompt(20, 3);
    prompt.push_back(static_cast<int32_t>(ordinal / 2));
    Request r = make_request(std::move(prompt), 16, ordinal % 2 == 0 ? 0.8f : 0.0f, ordinal);
    if (ordinal % 3 == 0) r.sampling.top_p = 0.9f;
    if (ordinal % 3 == 1) r.sampling.repetition_penalty = 1.3f;
    r.sampling.top_logprobs = 3;
    r.prompt_logprobs = ordinal % 2 == 0;
    test.engine.submit(r);
  }
  return test.run();
}

class CudaEngine : public ::testing::Test {
 protected:
  void TearDown() override { emulated::restart(0); }
  static TinyModel load(Dtype dtype) {
    return on_device(emulated_gpu(), fixture_path("llama"), dtype);
  }
};

TEST_F(CudaEngine, BatchChunksCacheAndPreemptionChangeNoBit) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    emulated::restart(0);
    const TinyModel tiny = load(dtype);
    const EngineOptions whole{
        .max_num_seqs = 8, .max_num_batched_tokens = 256, .prefill_chunk = 64};
    const SampleMap want = sampled(tiny, whole, 64);
    ASSERT_EQ(want.size(), 6u);
    EngineOptions one = whole, chunks = whole, uncached = whole, swaps = chunks;
    one.max_num_seqs = 1;
    chunks.prefill_chunk = 3;
    uncached.prefix_caching = false;
    swaps.swap_blocks = 16;
    expect_same_samples(sampled(tiny, one, 64), want);
    expect_same_samples(sampled(tiny, chunks, 64), want);
    expect_same_samples(sampled(tiny, uncached, 64), want);
    expect_same_samples(sampled(tiny, swaps, 9), want);
  }
}

TEST_F(CudaEngine, NoOrderOfTheStreamsChangesASample) {
  SampleMap first;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    emulated::restart(seed);
    const TinyModel tiny = load(Dtype::kBf16);
    SampleMap samples =
        sampled(tiny, {.max_num_seqs = 4, .max_num_batched_tokens = 64, .prefill_chunk = 16}, 64);
    if (seed == 0)
      first = std::move(samples);
    else
      expect_same_samples(samples, first);
  }
}

}  // namespace
}  // namespace rl::testing
