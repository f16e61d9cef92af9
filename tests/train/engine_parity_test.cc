// Contract N2 end to end: log-probs stored by the engine at sampling equal the trainer's bit for
// bit, over batch sizes, prefill chunks, packings, threads, temperatures and dtypes, also after
// training steps.
#include <gtest/gtest.h>

#include "engine_samples.h"
#include "support/compute_dtypes.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

using Case = std::tuple<const char*, Dtype, float, int>;
class EngineParity : public ::testing::TestWithParam<Case> {};

TEST_P(EngineParity, SampledLogprobsEqualTheTrainers) {
  const auto [name, dtype, temperature, threads] = GetParam();
  if (dtype == Dtype::kBf16 && !cpu_has_bf16_dot())
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  for (const int64_t max_tokens : {100, 512}) {
    TrainerOptions o;
    o.max_tokens = max_tokens;
    o.logprob_chunk_tokens = max_tokens == 100 ? 7 : 0;
    o.schedule.lr = 1e-3;
    TrainRig rig({.model = name, .compute = dtype, .threads = threads}, o);
    for (const int64_t batch : {1, 3, 16}) {
      for (const int64_t chunk : {1, 7, 64}) {
        const std::vector<Sample> samples =
            sample_with_engine(rig.model(), {batch, chunk, temperature});
        const TrainMetrics m = rig.trainer->step(with_advantages(samples));
        EXPECT_EQ(m.logprob_max_abs_diff, 0.0) << "batch " << batch << ", chunk " << chunk;
        EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
        EXPECT_GT(m.loss_tokens, 4);
        EXPECT_EQ(m.ratio_max, 1.0);
        EXPECT_EQ(m.optimizer_steps, 1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels, EngineParity,
    ::testing::Combine(::testing::Values("llama", "smollm2", "qwen2", "qwen3", "mistral", "gemma3"),
                       ::testing::ValuesIn(compute_dtypes()), ::testing::Values(1.0f, 0.7f),
                       ::testing::Values(1, 2)));

}  // namespace
}  // namespace rl::testing
