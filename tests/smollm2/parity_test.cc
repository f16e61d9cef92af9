// Contract N2 on the real model: log-probs stored at sampling equal the trainer's bit for bit, over
// batch sizes, prefill chunks, packings, threads, temperatures and dtypes.
#include <cstdlib>

#include "train/engine_samples.h"
#include "train/train_rig.h"

namespace rl::testing {
namespace {

// Largest difference between stored and recomputed log-probs; counts the tokens compared.
double largest_difference(TrainRig& rig, const std::vector<Sample>& samples, int64_t& tokens) {
  std::vector<std::vector<float>> again;
  std::vector<const Sample*> in;
  std::vector<std::span<float>> out;
  for (const Sample& s : samples) again.emplace_back(s.logprobs.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    in.push_back(&samples[i]);
    out.emplace_back(again[i]);
  }
  rig.trainer->logprobs(rig.model(), in, out);
  double largest = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t t = 0; t < again[i].size(); ++t, ++tokens)
      largest =
          std::max(largest, std::abs(static_cast<double>(again[i][t]) - samples[i].logprobs[t]));
  }
  return largest;
}

void expect_parity(const std::string& path, Dtype dtype) {
  const bool every_case = std::getenv("RL_LONG") != nullptr;
  int64_t tokens = 0;
  for (const int threads : {1, 2}) {
    TrainerOptions options;
    TrainRig rig({.model = path, .compute = dtype, .threads = threads}, options);
    for (const float temperature : {1.0f, 0.7f}) {
      for (const auto& [batch, own_chunk] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {16, 64}}) {
        for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}}) {
          if (!every_case && chunk != own_chunk) continue;
          const auto samples = sample_with_engine(rig.model(), {batch, chunk, temperature});
          for (const int64_t max_tokens : {100, 512}) {
            options.max_tokens = max_tokens;
            options.logprob_chunk_tokens = max_tokens == 100 ? 7 : 0;
            rig.rebuild(options);
            EXPECT_EQ(largest_difference(rig, samples, tokens), 0.0)
                << "threads " << threads << " temperature " << temperature << " batch " << batch
                << " chunk " << chunk;
          }
        }
      }
    }
  }
  EXPECT_GT(tokens, 1000);
}

TEST(SmolLm2Parity, SampledLogprobsEqualTheTrainersInBf16) {
  const char* path = std::getenv("RL_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  expect_parity(path, Dtype::kBf16);
}

TEST(SmolLm2Parity, SampledLogprobsEqualTheTrainersInFp32) {
  const char* path = std::getenv("RL_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
  expect_parity(path, Dtype::kF32);
}

}  // namespace
}  // namespace rl::testing
