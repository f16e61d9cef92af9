// Contract N1/N2 on the model: the hidden state and log-prob of a token have the same bits alone, packed among others,
// in any prefill chunking, and at any thread count.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "support/tiny_model.h"

namespace rl::testing {
namespace {

std::vector<std::vector<int32_t>> random_sequences(int count, int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<std::vector<int32_t>> out(count);
  for (auto& s : out) {
    s.resize(3 + rng() % 70);
    for (auto& id : s) id = static_cast<int32_t>(rng() % vocab);
  }
  return out;
}

// Log-probs of every next token of every sequence, forwarded as one packed training batch.
std::vector<std::vector<float>> packed_logprobs(const TinyModel& tiny,
                                                const std::vector<std::vector<int32_t>>& sequences,
                                                float temperature) {
  const Model& model = *tiny.model;
  TrainingBatch batch(tiny, sequences);
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  Arena arena("head", HeadBuffers::bytes(model.config(), model.compute_dtype(), batch.rows(), false));
  HeadBuffers head(model.config(), model.compute_dtype(), batch.rows(), false, arena.data());
  std::vector<int32_t> rows(batch.rows());
  std::iota(rows.begin(), rows.end(), 0);
  gather_rows(model, batch.buffers->hidden, rows, head);
  head_forward(model, std::vector<float>(batch.rows(), 1.0f / temperature), head);
  std::vector<std::vector<float>> out;
  for (const SequenceRows& s : batch.slices()) {
    out.emplace_back();
    for (int32_t t = 0; t + 1 < s.rows; ++t)
      out.back().push_back(head_logprob(head, s.first_row + t, batch.ids()[s.first_row + t + 1]));
  }
  return out;
}

// The same for one sequence fed in chunks without saved activations, one head row at a time.
std::vector<float> chunked_logprobs(const TinyModel& tiny, const std::vector<int32_t>& ids, int32_t chunk,
                                    float temperature) {
  const Model& model = *tiny.model;
  TrainingBatch whole(tiny, {ids});  // for its buffers and blocks
  Arena arena("head", HeadBuffers::bytes(model.config(), model.compute_dtype(), 1, false));
  HeadBuffers head(model.config(), model.compute_dtype(), 1, false, arena.data());
  std::vector<float> out;
  const int32_t length = static_cast<int32_t>(ids.size());
  for (int32_t start = 0; start < length; start += chunk) {
    const int32_t rows = std::min(chunk, length - start);
    const SequenceRows slice{0, rows, start, whole.slices()[0].blocks};
    forward(model, {{ids.data() + start, static_cast<size_t>(rows)}, {&slice, 1}}, whole.pool, *whole.buffers,
            nullptr);
    for (int32_t r = 0; r < rows && start + r + 1 < length; ++r) {
      gather_rows(model, whole.buffers->hidden, std::vector<int32_t>{r}, head);
      head_forward(model, std::vector<float>{1.0f / temperature}, head);
      out.push_back(head_logprob(head, 0, ids[start + r + 1]));
    }
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

using Case = std::tuple<const char*, Dtype, float>;
class Exactness : public ::testing::TestWithParam<Case> {};

TEST_P(Exactness, LogprobsDoNotDependOnPackingChunksOrThreads) {
  const auto [name, dtype, temperature] = GetParam();
  if (dtype == Dtype::kBf16 && !cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  TinyModel one(TinyModel::fixture(name), dtype, 1), two(TinyModel::fixture(name), dtype, 2);
  ASSERT_TRUE(one.matmul.exact()) << one.matmul.implementation();
  const auto sequences = random_sequences(16, one.model->config().vocab, 7);
  const auto reference = packed_logprobs(one, sequences, temperature);
  const auto threaded = packed_logprobs(two, sequences, temperature);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_TRUE(same_bits(threaded[i], reference[i])) << "two threads, sequence " << i;
    EXPECT_TRUE(same_bits(packed_logprobs(two, {sequences[i]}, temperature)[0], reference[i])) << "alone " << i;
    for (const int32_t chunk : {1, 7, 64})
      EXPECT_TRUE(same_bits(chunked_logprobs(two, sequences[i], chunk, temperature), reference[i]))
          << "chunk " << chunk << ", sequence " << i;
  }
  const auto three = packed_logprobs(two, {sequences[5], sequences[0], sequences[9]}, temperature);
  EXPECT_TRUE(same_bits(three[0], reference[5]));
  EXPECT_TRUE(same_bits(three[1], reference[0]));
  EXPECT_TRUE(same_bits(three[2], reference[9]));
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Exactness,
                         ::testing::Combine(::testing::Values("llama", "smollm2", "qwen2"),
                                            ::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::Values(1.0f, 0.7f)));

}  // namespace
}  // namespace rl::testing
