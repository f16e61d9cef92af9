// The real SmolLM2-135M-Instruct file: its logits against the goldens in fp32, and the exactness
// contract in the dtypes and packings users run. Needs RL_SMOLLM2_GGUF (scripts/fetch_model.sh
// prints the path).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/head_logprob.h"
#include "support/logprob_runs.h"

namespace rl::testing {
namespace {

// fp32 activations: torch's own fp32 run is off by 2.4e-5 on logits; ten times that holds for any
// sound order of sums.
constexpr double kLogitTolerance = 2e-4, kLogprobTolerance = 1e-4;

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("RL_SMOLLM2_GGUF");
    if (!path) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
    path_ = path;
    std::ifstream in(std::string(RL_FIXTURES) + "/gguf/smollm2_135m_q4_1.golden.json");
    golden_ = nlohmann::json::parse(in);
  }
  std::string path_;
  nlohmann::json golden_;
};

TEST_F(SmolLm2, LogitsLogprobsEntropyAndGreedyTokensMatch) {
  TinyModel tiny(path_, Dtype::kF32, 2, 32);
  const Model& model = *tiny.model;
  std::vector<int32_t> ids = golden_["prompt_ids"];
  const auto text_ids = golden_["text_ids"].get<std::vector<int32_t>>();

  TrainingBatch batch(tiny, {ids, text_ids});
  forward(model, batch.batch(), batch.pool, *batch.buffers, nullptr);
  Arena arena("head", HeadBuffers::bytes(model.config(), Dtype::kF32, batch.rows(), false));
  HeadBuffers head(model.config(), Dtype::kF32, batch.rows(), false, arena.data());
  std::vector<int32_t> rows(batch.rows());
  std::iota(rows.begin(), rows.end(), 0);
  gather_rows(model, batch.buffers->hidden, rows, head);
  head_forward(model, std::vector<float>(batch.rows(), 1.0f), head);

  const int64_t last = static_cast<int64_t>(ids.size()) - 1;
  const auto& top = golden_["top20"];
  for (size_t i = 0; i < top["ids"].size(); ++i) {
    const float logit = head.z[last * head.vocab + top["ids"][i].get<int64_t>()];
    EXPECT_NEAR(logit, top["logits_f64"][i].get<double>(), kLogitTolerance);
  }
  const int64_t first = static_cast<int64_t>(ids.size());
  for (size_t t = 0; t < text_ids.size(); ++t) {
    EXPECT_NEAR(head.stats[first + t].entropy, golden_["text_entropy_f64"][t].get<double>(),
                kLogprobTolerance)
        << t;
    if (t + 1 == text_ids.size()) break;
    const double want = golden_["text_logprobs_f64"][t].get<double>();
    EXPECT_NEAR(head_logprob(head, first + t, text_ids[t + 1]), want, kLogprobTolerance) << t;
  }

  for (const int32_t want : golden_["greedy"]["ids"].get<std::vector<int32_t>>()) {
    TrainingBatch whole(tiny, {ids});
    forward(model, whole.batch(), whole.pool, *whole.buffers, nullptr);
    gather_rows(model, whole.buffers->hidden,
                std::vector<int32_t>{static_cast<int32_t>(ids.size()) - 1}, head);
    head_forward(model, std::vector<float>{1.0f}, head);
    ids.push_back(static_cast<int32_t>(argmax(head.z, head.vocab)));
    ASSERT_EQ(ids.back(), want);
  }
}

void expect_exact(const std::string& path, Dtype dtype) {
  TinyModel one(path, dtype, 1, 32), two(path, dtype, 2, 32);
  ASSERT_TRUE(one.compute->exact()) << one.compute->implementation();
  const auto sequences = random_sequences(16, one.model->config().vocab, 11);
  for (const float temperature : {1.0f, 0.7f}) {
    const auto reference = packed_logprobs(one, sequences, temperature);
    const auto threaded = packed_logprobs(two, sequences, temperature);
    for (size_t i = 0; i < sequences.size(); ++i)
      EXPECT_TRUE(same_bits(threaded[i], reference[i])) << i;
    const auto three =
        packed_logprobs(two, {sequences[7], sequences[2], sequences[13]}, temperature);
    EXPECT_TRUE(same_bits(three[0], reference[7]));
    EXPECT_TRUE(same_bits(three[1], reference[2]));
    EXPECT_TRUE(same_bits(three[2], reference[13]));
    for (const int32_t chunk : {1, 7, 64}) {
      const auto chunked = chunked_logprobs(two, sequences[chunk % 16], chunk, temperature);
      EXPECT_TRUE(same_bits(chunked, reference[chunk % 16])) << chunk;
    }
  }
}

TEST_F(SmolLm2, LogprobsAreExactInBf16) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  expect_exact(path_, Dtype::kBf16);
}
TEST_F(SmolLm2, LogprobsAreExactInFp32) { expect_exact(path_, Dtype::kF32); }

}  // namespace
}  // namespace rl::testing
