// Samples drawn by an engine of its own, for tests that compare them with the trainer.
#pragma once
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "rollout/engine.h"

namespace rl::testing {

struct Sampling {
  int64_t batch;  // running samples
  int64_t prefill_chunk;
  float temperature;
};

// Four prompts with three samples each.
inline std::vector<Sample> sample_with_engine(const Model& model, const Sampling& sampling) {
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

}  // namespace rl::testing
