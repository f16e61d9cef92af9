// Every fixture model runs on the reference device through the layer code of the library, and
// agrees with the CPU device: logits, entropies and all gradients of prefill, log-probs of chunks
// and of decode, values.
//
// Tolerances in fp32 are twice those that the golden tests allow the CPU against float64
// (tests/model/golden_test.cc): each device stays within them, since both round what passes between
// ops to fp32.
#include <gtest/gtest.h>

#include "model_pass.h"
#include "support/golden_tensors.h"
#include "support/layered_model.h"
#include "support/logprob_runs.h"
#include "support/random_llama.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

constexpr double kLogitTolerance = 1e-4, kLogprobTolerance = 4e-5;
constexpr double kGradTolerance = 4e-5;  // of the tensor's largest gradient

class ReferenceModels : public ::testing::TestWithParam<std::string> {
 protected:
  TinyModel load(const Device& device, Dtype dtype = Dtype::kF32) const {
    return on_device(device, fixture_path(GetParam()), dtype);
  }
};

INSTANTIATE_TEST_SUITE_P(Fixtures, ReferenceModels, ::testing::ValuesIn(device_fixtures()),
                         case_name);

void expect_same_pass(const TinyModel& reference, const TinyModel& cpu) {
  const auto sequences = sequences_for(cpu.model->config());
  const ModelPass want = run_pass(cpu, sequences), got = run_pass(reference, sequences);
  EXPECT_LE(largest_difference(got.logits, want.logits), kLogitTolerance);
  EXPECT_LE(largest_difference(got.entropies, want.entropies), kLogprobTolerance);
  for (const Parameter& p : cpu.model->layout().parameters()) {
    const auto of = [&](const ModelPass& pass) {
      const float* first = pass.gradients.data() + p.offset;
      return std::vector<float>(first, first + p.size);
    };
    const std::vector<float> expected = of(want), zero(expected.size(), 0.0f);
    EXPECT_LE(largest_difference(of(got), expected),
              kGradTolerance * largest_difference(expected, zero) + 1e-8)
        << p.name;
  }
}

TEST_P(ReferenceModels, PrefillMatchesTheCpu) {
  expect_same_pass(load(reference_device()), load(cpu_device()));
}

// Its 300 positions are three chunks of the attention backward; the fixtures have one.
TEST(ReferenceLongSequence, PrefillMatchesTheCpu) {
  const TempDir dir;
  const std::string path = write_random_llama(dir.file("long"), {.max_position = 300});
  expect_same_pass(on_device(reference_device(), path, Dtype::kF32),
                   on_device(cpu_device(), path, Dtype::kF32));
}

// The device plans each layer with its own shape: its packed form of a matrix has the matrix's
// size.
TEST(ReferenceLayers, LayersOfDifferentShapesMatchTheCpu) {
  for (const ModelConfig& config : {layered_config(), layered_normed_config()}) {
    const auto load = [&](const Device& device) {
      return TinyModel(LayeredSource(config), {make_thread_executor(1), device}, Dtype::kF32,
                       ModelOptions{.block_size = 16});
    };
    const TinyModel cpu = load(cpu_device()), reference = load(reference_device());
    expect_same_pass(reference, cpu);
    for (const std::vector<int32_t>& ids : sequences_for(config)) {
      for (const int32_t chunk : {1, 7}) {
        EXPECT_LE(largest_difference(chunked_logprobs(reference, ids, chunk, 1.0f),
                                     chunked_logprobs(cpu, ids, chunk, 1.0f)),
                  kLogprobTolerance)
            << ids.size() << " tokens by " << chunk;
      }
    }
    uint64_t packed = 0;
    for (const Parameter& p : reference.model->layout().parameters()) {
      const bool multiplied = config.tied_head || p.name != "model.embed_tokens.weight";
      if (p.shape.size() == 2 && multiplied) packed += static_cast<uint64_t>(p.size);
    }
    EXPECT_EQ(Model::packed_forward_bytes(reference_device(), config, Dtype::kF32),
              packed * sizeof(float));
    EXPECT_EQ(reference.ledger.bytes(), Model::master_bytes(config) + packed * sizeof(float));
  }
}

TEST_P(ReferenceModels, DecodeMatchesTheCpu) {
  const TinyModel cpu = load(cpu_device()), reference = load(reference_device());
  for (const std::vector<int32_t>& ids : sequences_for(cpu.model->config())) {
    for (const int32_t chunk : {1, 7}) {
      EXPECT_LE(largest_difference(chunked_logprobs(reference, ids, chunk, 1.0f),
                                   chunked_logprobs(cpu, ids, chunk, 1.0f)),
                kLogprobTolerance)
          << ids.size() << " tokens by " << chunk;
    }
  }
}

// Contract N1 on this device: no sum depends on what else is in the batch.
TEST_P(ReferenceModels, ATokenHasTheSameBitsInPrefillChunksAndDecode) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    const TinyModel reference = load(reference_device(), dtype);
    const auto sequences = sequences_for(reference.model->config());
    const auto packed = packed_logprobs(reference, sequences, 0.7f);
    for (size_t i = 0; i < sequences.size(); ++i) {
      for (const int32_t chunk : {1, 7}) {
        EXPECT_TRUE(same_bits(chunked_logprobs(reference, sequences[i], chunk, 0.7f), packed[i]))
            << dtype_name(dtype) << ", sequence " << i << " by " << chunk;
      }
    }
  }
}

// Two bf16 runs that round the same values in other sums: rounding alone changes a gradient of the
// test models by 5e-3 (docs/architecture.md), and attention weights are rounded on one side only.
TEST_P(ReferenceModels, Bf16GradientsMatchTheCpu) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  const TinyModel cpu = load(cpu_device(), Dtype::kBf16),
                  reference = load(reference_device(), Dtype::kBf16);
  const auto sequences = sequences_for(cpu.model->config());
  const ModelPass want = run_pass(cpu, sequences), got = run_pass(reference, sequences);
  double off = 0, size = 0;
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    const double difference = static_cast<double>(got.gradients[i]) - want.gradients[i];
    off += difference * difference;
    size += static_cast<double>(want.gradients[i]) * want.gradients[i];
  }
  EXPECT_LE(std::sqrt(off / size), 3e-2);
}

// The reference rounds to bf16 where the contracts say so on any machine. The goldens' notes allow
// 0.15 between two bf16 runs.
TEST(ReferenceBf16, LogitsMatchThoseOfTorch) {
  const GoldenTensors golden(TinyModel::fixture("llama_bf16") + "/golden.safetensors");
  const TinyModel tiny =
      on_device(reference_device(), TinyModel::fixture("llama_bf16"), Dtype::kBf16);
  for (const std::string seq : {"seq0", "seq1", "seq2"}) {
    const ModelPass got = run_pass(tiny, {golden.ids(seq + ".input_ids")});
    const GoldenTensor want = golden.get(seq + ".logits_bf16");
    ASSERT_EQ(want.values.size(), got.logits.size());
    for (size_t i = 0; i < want.values.size(); ++i)
      ASSERT_NEAR(got.logits[i], want.values[i], 0.15) << seq << " " << i;
  }
}

TEST(ReferenceValues, TheyMatchTheCpu) {
  const std::string path = TinyModel::fixture("llama_value");
  const std::vector<float> want =
      value_pass(on_device(cpu_device(), path, Dtype::kF32, ModelHead::kScalar));
  const std::vector<float> got =
      value_pass(on_device(reference_device(), path, Dtype::kF32, ModelHead::kScalar));
  EXPECT_GT(largest_difference(want, std::vector<float>(want.size(), 0.0f)), 1e-3);
  EXPECT_LE(largest_difference(got, want), kLogprobTolerance);
}

}  // namespace
}  // namespace rl::testing
