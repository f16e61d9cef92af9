// Contract N1/N2 on the model: the hidden state and log-prob of a token have the same bits alone,
// packed among others, in any prefill chunking, and at any thread count.
#include <gtest/gtest.h>

#include "support/compute_dtypes.h"
#include "support/logprob_runs.h"

namespace rl::testing {
namespace {

using Case = std::tuple<const char*, Dtype, float>;
class Exactness : public ::testing::TestWithParam<Case> {};

TEST_P(Exactness, LogprobsDoNotDependOnPackingChunksOrThreads) {
  const auto [name, dtype, temperature] = GetParam();
  if (dtype == Dtype::kBf16 && !cpu_has_bf16_dot())
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  TinyModel one(TinyModel::fixture(name), dtype, 1), two(TinyModel::fixture(name), dtype, 2);
  ASSERT_TRUE(one.compute->exact()) << one.compute->implementation();
  const auto sequences = random_sequences(16, one.model->config().vocab, 7);
  const auto reference = packed_logprobs(one, sequences, temperature);
  const auto threaded = packed_logprobs(two, sequences, temperature);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_TRUE(same_bits(threaded[i], reference[i])) << "two threads, sequence " << i;
    EXPECT_TRUE(same_bits(packed_logprobs(two, {sequences[i]}, temperature)[0], reference[i]))
        << "alone " << i;
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
                         ::testing::Combine(::testing::Values("llama", "smollm2", "qwen2", "qwen3",
                                                              "mistral", "gemma3",
                                                              "llama_rope_yarn"),
                                            ::testing::ValuesIn(compute_dtypes()),
                                            ::testing::Values(1.0f, 0.7f)));

}  // namespace
}  // namespace rl::testing
