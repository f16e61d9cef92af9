// Every cut of the published models of all families holds what it promises, on any number of
// threads. Sizes are those of their config.json.
#include <gtest/gtest.h>

#include <ostream>

#include "model/packed_weights.h"
#include "support/cuts.h"

namespace rl::testing {
namespace {

struct Published {
  const char* name;
  int64_t hidden, heads, kv_heads, head_dim, ffn, vocab, layers;
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.name; }

constexpr Published kPublished[] = {
    {"stories15M", 288, 6, 6, 48, 768, 32000, 6},
    {"stories42M", 512, 8, 8, 64, 1376, 32000, 8},
    {"stories110M", 768, 12, 12, 64, 2048, 32000, 12},
    {"SmolLM2-135M", 576, 9, 3, 64, 1536, 49152, 30},
    {"SmolLM2-360M", 960, 15, 5, 64, 2560, 49152, 32},
    {"SmolLM2-1.7B", 2048, 32, 32, 64, 8192, 49152, 24},
    {"TinyLlama-1.1B", 2048, 32, 4, 64, 5632, 32000, 22},
    {"Llama-2-7B", 4096, 32, 32, 128, 11008, 32000, 32},
    {"Llama-2-13B", 5120, 40, 40, 128, 13824, 32000, 40},
    {"Llama-2-70B", 8192, 64, 8, 128, 28672, 32000, 80},
    {"Yi-34B", 7168, 56, 8, 128, 20480, 64000, 60},
    {"Llama-3.2-1B", 2048, 32, 8, 64, 8192, 128256, 16},
    {"Llama-3.2-3B", 3072, 24, 8, 128, 8192, 128256, 28},
    {"Llama-3.1-8B", 4096, 32, 8, 128, 14336, 128256, 32},
    {"Llama-3.1-70B", 8192, 64, 8, 128, 28672, 128256, 80},
    {"Llama-3.1-405B", 16384, 128, 8, 128, 53248, 128256, 126},
    {"Qwen2.5-0.5B", 896, 14, 2, 64, 4864, 151936, 24},
    {"Qwen2.5-1.5B", 1536, 12, 2, 128, 8960, 151936, 28},
    {"Qwen2.5-3B", 2048, 16, 2, 128, 11008, 151936, 36},
    {"Qwen2.5-7B", 3584, 28, 4, 128, 18944, 152064, 28},
    {"Qwen2.5-14B", 5120, 40, 8, 128, 13824, 152064, 48},
    {"Qwen2.5-32B", 5120, 40, 8, 128, 27648, 152064, 64},
    {"Qwen2.5-72B", 8192, 64, 8, 128, 29568, 152064, 80},
    {"Qwen3-0.6B", 1024, 16, 8, 128, 3072, 151936, 28},
    {"Qwen3-1.7B", 2048, 16, 8, 128, 6144, 151936, 28},
    {"Qwen3-4B", 2560, 32, 8, 128, 9728, 151936, 36},
    {"Qwen3-8B", 4096, 32, 8, 128, 12288, 151936, 36},
    {"Qwen3-14B", 5120, 40, 8, 128, 17408, 151936, 40},
    {"Qwen3-32B", 5120, 64, 8, 128, 25600, 151936, 64},
    {"Mistral-7B", 4096, 32, 8, 128, 14336, 32768, 32},
    {"Mistral-Nemo-12B", 5120, 32, 8, 128, 14336, 131072, 40},
    {"Mistral-Small-22B", 6144, 48, 8, 128, 16384, 32768, 56},
    {"Mistral-Small-24B", 5120, 32, 8, 128, 32768, 131072, 40},
    {"Mistral-Large-123B", 12288, 96, 8, 128, 28672, 32768, 88},
    {"Gemma-3-270M", 640, 4, 1, 256, 2048, 262144, 18},
    {"Gemma-3-1B", 1152, 4, 1, 256, 6912, 262144, 26},
    {"Gemma-3-4B", 2560, 8, 4, 256, 10240, 262208, 34},
    {"Gemma-3-12B", 3840, 16, 8, 256, 15360, 262208, 48},
    {"Gemma-3-27B", 5376, 32, 16, 128, 21504, 262208, 62},
    // Not published: the other head sizes, and wide layers.
    {"12 heads of 48", 576, 12, 12, 48, 1536, 32000, 6},
    {"heads of 80", 2560, 32, 32, 80, 10240, 51200, 32},
    {"heads of 96", 3072, 32, 32, 96, 8192, 32064, 32},
    {"12288 wide", 12288, 96, 96, 128, 8192, 32000, 4},
};

ModelConfig config_of(const Published& p) {
  ModelConfig c;
  c.hidden = p.hidden;
  c.heads = p.heads;
  c.kv_heads = p.kv_heads;
  c.head_dim = p.head_dim;
  c.ffn = p.ffn;
  c.vocab = p.vocab;
  c.layers = p.layers;
  return c;
}

class PublicShapes : public ::testing::TestWithParam<Published> {};

TEST_P(PublicShapes, SlicesAndColumnTilesHoldWhatTheyPromise) {
  const ModelConfig config = config_of(GetParam());
  for (const int64_t width : {0, 32, 128}) {
    for (const ProductRules& r : {forward_rules(config, width), backward_rules(config, width)}) {
      for (const SliceRule& rule : {r.qkv, r.o, r.gate_up, r.down, r.head}) {
        SCOPED_TRACE(::testing::Message()
                     << GetParam().name << ": " << rule.k << " x " << rule.n << " in " << width);
        ASSERT_NO_FATAL_FAILURE(check_product(rule));
      }
    }
  }
  EXPECT_EQ(cut_slices(forward_rules(config).head).width, kVocabularyTile);
  EXPECT_EQ(forward_rules(config).qkv.cut.unit, config.head_dim);
}

TEST_P(PublicShapes, WeightGradientsAreCutAlongBothSides) {
  const ProductRules r = forward_rules(config_of(GetParam()));
  for (const SliceRule& rule : {r.qkv, r.o, r.gate_up, r.down, r.head}) {
    SCOPED_TRACE(GetParam().name);
    ASSERT_NO_FATAL_FAILURE(check_gradient(rule.n, rule.k));
    const bool large = GetParam().hidden >= 4096;
    EXPECT_GE(cut_gradient(rule.n, rule.k).count(), large ? 256 : 1);
  }
}

// Those of the plan, which throws where oneDNN wants more scratch than there is.
TEST_P(PublicShapes, PackedBytesAreLittleMoreThanTheWeights) {
  const ModelConfig c = config_of(GetParam());
  const auto q = static_cast<uint64_t>(c.heads * c.head_dim),
             kv = static_cast<uint64_t>(c.kv_heads * c.head_dim);
  const auto hidden = static_cast<uint64_t>(c.hidden), layers = static_cast<uint64_t>(c.layers);
  const uint64_t layer = hidden * (2 * q + 2 * kv + 3 * static_cast<uint64_t>(c.ffn));
  const uint64_t bytes = sizeof(float) * (layer * layers + hidden * static_cast<uint64_t>(c.vocab));
  for (const PackedShapes& s : {plan_forward_shapes(cpu_device(), c, Dtype::kF32),
                                plan_backward_shapes(cpu_device(), c, Dtype::kF32)}) {
    EXPECT_GE(packed_bytes(s), bytes) << GetParam().name;
    EXPECT_LE(packed_bytes(s), bytes + bytes / 4) << GetParam().name;  // blocks that are not full
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PublicShapes, ::testing::ValuesIn(kPublished),
                         [](const auto& info) { return "Shape" + std::to_string(info.index); });

}  // namespace
}  // namespace rl::testing
