// Fixture models of every family on the emulated GPU, through the layer code of the library:
// logits, entropies and gradients agree with the reference device, and a token has the same bits in
// prefill, chunks, decode and packed training (contracts N1 and N2).
//
// Tolerances in fp32 are those between the reference device and the CPU
// (tests/reference/device_models_test.cc): all round what passes between ops to fp32.
#include <gtest/gtest.h>

#include "cuda_models/emulated_gpu.h"
#include "reference/model_pass.h"
#include "support/compare_values.h"
#include "support/logprob_runs.h"

namespace rl::testing {
namespace {

constexpr double kLogitTolerance = 1e-4, kLogprobTolerance = 4e-5;
constexpr double kGradTolerance = 4e-5;  // of the tensor's largest gradient

// Without the longest sequence, for time.
std::vector<std::vector<int32_t>> short_sequences(const TinyModel& tiny) {
  auto sequences = sequences_for(tiny.model->config());
  sequences.pop_back();
  return sequences;
}

// One fixture on the emulated GPU and on the reference device, and what both compute.
struct BothPasses {
  BothPasses(const std::string& fixture, Dtype dtype)
      : gpu(on_device(emulated_gpu(), fixture_path(fixture), dtype)),
        reference(on_device(reference_device(), fixture_path(fixture), dtype)),
        got(run_pass(gpu, short_sequences(gpu))),
        want(run_pass(reference, short_sequences(reference))) {}
  const TinyModel gpu, reference;
  const ModelPass got, want;
};

class CudaPasses : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { emulated::restart(0); }
};

INSTANTIATE_TEST_SUITE_P(Fixtures, CudaPasses, ::testing::ValuesIn(device_fixtures()), case_name);

TEST_P(CudaPasses, PassesMatchTheReference) {
  const BothPasses passes(GetParam(), Dtype::kF32);
  EXPECT_EQ(passes.gpu.model->weight_digest(), passes.reference.model->weight_digest());
  EXPECT_LE(largest_difference(passes.got.logits, passes.want.logits), kLogitTolerance);
  EXPECT_LE(largest_difference(passes.got.entropies, passes.want.entropies), kLogprobTolerance);
  for (const Parameter& p : passes.reference.model->layout().parameters()) {
    const auto of = [&](const ModelPass& pass) {
      const float* first = pass.gradients.data() + p.offset;
      return std::vector<float>(first, first + p.size);
    };
    const std::vector<float> expected = of(passes.want), zero(expected.size(), 0.0f);
    EXPECT_LE(largest_difference(of(passes.got), expected),
              kGradTolerance * largest_difference(expected, zero) + 1e-8)
        << p.name;
  }
}

// As between the reference and the CPU in bf16: rounding alone changes a gradient of the test
// models by 5e-3, and logits of two bf16 runs differ by up to 0.15.
TEST_P(CudaPasses, Bf16PassesMatchTheReference) {
  const BothPasses passes(GetParam(), Dtype::kBf16);
  EXPECT_LE(largest_difference(passes.got.logits, passes.want.logits), 0.15);
  EXPECT_LE(relative_l2(passes.got.gradients, passes.want.gradients), 3e-2);
}

TEST_P(CudaPasses, ATokenHasTheSameBitsInPrefillChunksAndDecode) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    const TinyModel gpu = on_device(emulated_gpu(), fixture_path(GetParam()), dtype);
    const auto sequences = short_sequences(gpu);
    const auto packed = packed_logprobs(gpu, sequences, 0.7f);
    for (size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_TRUE(same_bits(packed_logprobs(gpu, {sequences[i]}, 0.7f).front(), packed[i]))
          << dtype_name(dtype) << ", sequence " << i << " alone";
      for (const int32_t chunk : {1, 7}) {
        EXPECT_TRUE(same_bits(chunked_logprobs(gpu, sequences[i], chunk, 0.7f), packed[i]))
            << dtype_name(dtype) << ", sequence " << i << " by " << chunk;
      }
    }
  }
}

class CudaPassOrders : public ::testing::Test {
 protected:
  void SetUp() override { emulated::restart(0); }
  void TearDown() override { emulated::restart(0); }
};

// Work of the stream runs early or late.
TEST_F(CudaPassOrders, NoOrderOfTheStreamsChangesABit) {
  std::vector<ModelPass> passes;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    emulated::restart(seed);
    const TinyModel gpu = on_device(emulated_gpu(), fixture_path("qwen3"), Dtype::kBf16);
    passes.push_back(run_pass(gpu, {{1, 2, 3, 4, 5}, {9, 8, 7}}));
    EXPECT_TRUE(same_bits(passes.back().logits, passes.front().logits)) << seed;
    EXPECT_TRUE(same_bits(passes.back().gradients, passes.front().gradients)) << seed;
  }
}

TEST_F(CudaPassOrders, ValuesMatchTheReference) {
  const std::string path = TinyModel::fixture("llama_value");
  const auto values = [&](const Device& device) {
    return value_pass(on_device(device, path, Dtype::kF32, ModelHead::kScalar));
  };
  EXPECT_LE(largest_difference(values(emulated_gpu()), values(reference_device())),
            kLogprobTolerance);
}

TEST_F(CudaPassOrders, ArenasAreMemoryOfTheDevice) {
  const TinyModel gpu = on_device(emulated_gpu(), fixture_path("llama"), Dtype::kF32);
  EXPECT_TRUE(gpu.compute->has_own_memory());
  uint64_t bytes = 0;
  for (const ArenaLedger::Entry& entry : gpu.ledger.entries()) {
    const bool on_device = entry.space == MemorySpace::kDevice;
    EXPECT_EQ(on_device, entry.name != kCopyStaging) << entry.name;
    bytes += on_device ? entry.bytes : 0;
  }
  EXPECT_GE(emulated::live().device_bytes, bytes);
}

}  // namespace
}  // namespace rl::testing
