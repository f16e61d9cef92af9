// Contract N2 on the real model for samples whose keys and values came about in every way a
// scheduler knows: in odd chunks, found by content, taken over from the leader of a group, computed
// anew and swapped in after a preemption.
#include <gtest/gtest.h>

#include <cstdlib>

#include "rollout/engine.h"
#include "train/train_rig.h"

namespace rl::testing {
namespace {

Request group_request(uint64_t ordinal, std::vector<int32_t> prompt) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_new_tokens = 20;
  r.num_samples = 4;
  r.ignore_eos = true;
  r.seed = 9;
  r.ordinal = ordinal;
  r.first_sample_id = 10 * ordinal + 1;
  return r;
}

// Four samples each of two prompts, then of one that begins like the first, and of the first again.
std::vector<SamplePtr> generated_under_pressure(const Model& model, int64_t swap_blocks) {
  EngineOptions o;
  o.max_num_seqs = 16;
  o.max_num_batched_tokens = 48;
  o.prefill_chunk = 7;
  o.max_model_len = 96;
  o.swap_blocks = swap_blocks;
  constexpr int64_t kBlocks = 15;  // one sample has up to five of 16 tokens, a group up to eleven
  const KvShape shape = model.kv_shape();
  const Arena kv("test engine kv", kBlocks * shape.block_bytes());
  const Arena workspace("test engine", engine_workspace_bytes(model, o));
  Engine engine(model, o, {shape, kv.data(), kBlocks}, workspace.data(), nullptr, nullptr);
  std::vector<int32_t> shared(41);
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<int32_t>(100 + i * 31);
  std::vector<int32_t> longer = shared, other(33, 500);
  longer.insert(longer.end(), {7, 8, 9, 10, 11});
  engine.submit(group_request(0, shared));
  engine.submit(group_request(1, other));
  for (int i = 0; i < 7; ++i) engine.step();
  engine.submit(group_request(2, longer));
  engine.submit(group_request(3, shared));
  while (engine.step()) {
  }
  const EngineStats stats = engine.stats();
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_EQ(stats.swapped_blocks > 0, swap_blocks > 0);
  EXPECT_GT(stats.cached_tokens, 0) << "swap blocks " << swap_blocks;
  std::vector<SamplePtr> samples = engine.take_finished();
  EXPECT_EQ(samples.size(), 16u);
  return samples;
}

void expect_trainer_agrees(const std::string& path, Dtype dtype) {
  TrainerOptions options;
  options.max_tokens = 512;
  TrainRig rig({.model = path, .compute = dtype, .threads = 2}, options);
  for (const int64_t swap_blocks : {0, 64}) {
    const std::vector<SamplePtr> samples = generated_under_pressure(rig.model(), swap_blocks);
    std::vector<std::vector<float>> again;
    std::vector<const Sample*> in;
    std::vector<std::span<float>> out;
    for (const SamplePtr& s : samples) again.emplace_back(s->logprobs.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      in.push_back(samples[i].get());
      out.emplace_back(again[i]);
    }
    rig.trainer->logprobs(rig.model(), in, out);
    int64_t different = 0, tokens = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      for (size_t t = 0; t < again[i].size(); ++t, ++tokens) {
        different += again[i][t] != samples[i]->logprobs[t] ? 1 : 0;
      }
    }
    EXPECT_EQ(different, 0) << "swap blocks " << swap_blocks;
    EXPECT_EQ(tokens, 16 * 20);
  }
}

TEST(SmolLm2ScheduleParity, EverySchedulesLogprobsEqualTheTrainersInBf16) {
  const char* path = std::getenv("RL_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  expect_trainer_agrees(path, Dtype::kBf16);
}

TEST(SmolLm2ScheduleParity, EverySchedulesLogprobsEqualTheTrainersInFp32) {
  const char* path = std::getenv("RL_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
  expect_trainer_agrees(path, Dtype::kF32);
}

}  // namespace
}  // namespace rl::testing
