// Logits of GGUF models, in half precision and in mixtures of block formats, against float64
// goldens, in fp32. The goldens use the dequantised weights, so a quantised model has the tolerance
// of any other.
#include <gtest/gtest.h>

#include <numeric>

#include "support/golden_tensors.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

class GgufGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufGolden, LogitsMatch) {
  constexpr double kTolerance = 5e-5;  // four times what torch's own fp32 run is off by
  const std::string stem = std::string(RL_FIXTURES) + "/gguf/" + GetParam();
  const TinyModel tiny(stem + ".gguf", Dtype::kF32, 2);
  const GoldenTensors golden(stem + ".golden.safetensors");
  for (const std::string seq : {"seq0", "seq1"}) {
    const std::vector<int32_t> ids = golden.ids(seq + ".input_ids");
    TrainingBatch batch(tiny, {ids});
    forward(*tiny.model, batch.batch(), batch.pool, *batch.buffers, nullptr);
    const ModelConfig& config = tiny.model->config();
    const Arena arena("head", HeadBuffers::bytes(config, Dtype::kF32, batch.rows(), false));
    HeadBuffers head(config, Dtype::kF32, batch.rows(), false, arena.data());
    std::vector<int32_t> rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    gather_rows(*tiny.model, batch.buffers->hidden, rows, head);
    head_forward(*tiny.model, std::vector<float>(ids.size(), 1.0f), head);
    const GoldenTensor want = golden.get(seq + ".logits_f64");
    ASSERT_EQ(static_cast<int64_t>(want.values.size()), batch.rows() * head.vocab);
    for (size_t i = 0; i < want.values.size(); ++i)
      ASSERT_NEAR(head.z[i], want.values[i], kTolerance) << seq << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufGolden,
                         ::testing::Values("tiny_llama_half", "tiny_llama_mixed",
                                           "tiny_qwen2_mixed"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rl::testing
