// Engines on a device whose memory the host cannot touch: samples with filters, penalties, top ids
// and measured prompts, also when blocks are swapped, have the bits of the reference device.
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "guarded_device.h"
#include "model_pass.h"
#include "rollout/engine_fixture.h"

namespace rl::testing {
namespace {

std::string sampled(const TinyModel& tiny, const EngineOptions& options, int64_t blocks) {
  TestEngine test(tiny, options, blocks);
  for (uint64_t ordinal = 0; ordinal < 8; ++ordinal) {
    Request r = make_request({3, 1, 4, 1, 5}, 40, ordinal % 2 == 0 ? 0.8f : 0.0f, ordinal);
    if (ordinal % 3 == 0) r.sampling.top_p = 0.9f;
    if (ordinal % 3 == 1) r.sampling.repetition_penalty = 1.3f;
    r.sampling.top_logprobs = 3;
    r.prompt_logprobs = ordinal % 2 == 0;
    r.min_new_tokens = 4;
    test.engine.submit(r);
  }
  std::string out;
  for (const auto& [key, sample] : test.run()) {
    for (const int32_t id : sample->ids) out += str(" ", id);
    for (const float p : sample->logprobs) out += str(" ", std::bit_cast<uint32_t>(p));
    for (const float p : sample->logprobs_sampled) out += str(" ", std::bit_cast<uint32_t>(p));
  }
  const EngineStats stats = test.engine.stats();
  return out + str(" preemptions ", stats.preemptions, " swapped ", stats.swapped_blocks);
}

TEST(GuardedEngine, SamplesHaveTheBitsOfTheReference) {
  const EngineOptions recomputed{
      .max_num_seqs = 8, .max_num_batched_tokens = 64, .prefill_chunk = 3};
  EngineOptions swaps = recomputed;
  swaps.swap_blocks = 16;
  for (const EngineOptions& options : {recomputed, swaps}) {
    const TinyModel guarded = on_device(guarded_device(), fixture_path("llama"), Dtype::kF32),
                    reference = on_device(reference_device(), fixture_path("llama"), Dtype::kF32);
    const std::string got = sampled(guarded, options, 14);
    EXPECT_EQ(got, sampled(reference, options, 14));
    EXPECT_EQ(got.find("swapped 0") == std::string::npos, options.swap_blocks > 0);
    EXPECT_EQ(got.find("preemptions 0"), std::string::npos);
  }
}

TEST(GuardedEngine, SwapSpaceIsMemoryOfTheHost) {
  const TinyModel tiny = on_device(guarded_device(), fixture_path("llama"), Dtype::kF32);
  const uint64_t before = tiny.ledger.bytes();
  const TestEngine test(tiny, {.swap_blocks = 16}, 14);
  const ArenaLedger::Entry swap = tiny.ledger.entries().back();
  EXPECT_EQ(swap.name, "swap space");
  EXPECT_EQ(swap.space, MemorySpace::kHost);
  EXPECT_EQ(swap.bytes, 16 * tiny.model->kv_shape().block_bytes());
  EXPECT_EQ(tiny.ledger.bytes(), before + swap.bytes);
}

}  // namespace
}  // namespace rl::testing
