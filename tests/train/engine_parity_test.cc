// Contract N2 end to end: log-probs stored by the engine at sampling equal the trainer's bit for
// bit, over batch sizes, prefill chunks, packings, threads, temperatures and dtypes, also after
// training steps.
#include <gtest/gtest.h>

#include "rollout/engine.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

struct Sampling {
  int64_t batch;  // running samples
  int64_t prefill_chunk;
  float temperature;
};

// Four prompts with three samples each.
std::vector<Sample> sample_with_engine(const Model& model, const Sampling& sampling) {
  EngineOptions o;
  o.max_num_seqs = std::max<int64_t>(sampling.batch, 3);
  o.max_num_batched_tokens = 128;
  o.prefill_chunk = sampling.prefill_chunk;
  o.max_model_len = 100;
  const KvShape shape = model.kv_shape();
  const int64_t blocks = 16 * 8;
  const Arena kv("test engine kv", static_cast<uint64_t>(blocks) * shape.block_bytes());
  const Arena workspace("test engine", engine_workspace_bytes(model, o));
  Engine engine(model, o, {shape, kv.data(), blocks}, workspace.data(), nullptr, nullptr);
  std::mt19937 rng(5);
  const int64_t samples = sampling.batch == 1 ? 1 : 3;
  for (uint64_t ordinal = 0; ordinal < 4; ++ordinal) {
    Request r;
    r.prompt.resize(5 + rng() % 60);
    for (auto& id : r.prompt) id = static_cast<int32_t>(rng() % 200);
    r.sampling.temperature = sampling.temperature;
    r.max_new_tokens = 24;
    r.num_samples = samples;
    r.seed = 9;
    r.ordinal = ordinal;
    r.first_sample_id = 10 * ordinal + 1;
    engine.submit(r);
    if (sampling.batch == 1)
      while (engine.step()) {
      }
  }
  while (engine.step()) {
  }
  std::vector<Sample> out;
  for (const SamplePtr& s : engine.take_finished()) out.push_back(*s);
  EXPECT_EQ(out.size(), static_cast<size_t>(4 * samples));
  for (Sample& s : out) s.loss_mask.assign(s.logprobs.size(), 1);
  return out;
}

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

INSTANTIATE_TEST_SUITE_P(TinyModels, EngineParity,
                         ::testing::Combine(::testing::Values("llama", "smollm2", "qwen2"),
                                            ::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::Values(1.0f, 0.7f),
                                            ::testing::Values(1, 2)));

}  // namespace
}  // namespace rl::testing
