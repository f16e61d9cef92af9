// Models of unusual shapes (tests/fixtures/seeded, made by tools/oracle/seeded_models.py): their
// weights are computed from tensor names and element indices, and the outputs that transformers
// computes on them are stored.
#pragma once
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hf/hf_config.h"
#include "support/golden_tensors.h"
#include "support/temp_dir.h"
#include "support/write_safetensors.h"

namespace rl::testing {

// Family and head size. Most have odd numbers of heads and odd MLP widths.
inline const std::vector<std::string>& seeded_models() {
  static const std::vector<std::string> names = {
      "llama_8",    "llama_20",   "llama_24", "llama_40",  "llama_48",  "llama_100", "llama_128",
      "mistral_72", "mistral_90", "qwen2_12", "qwen2_22",  "qwen2_40",  "qwen2_48",  "qwen2_80",
      "qwen3_6",    "qwen3_36",   "qwen3_96", "qwen3_128", "gemma3_24", "gemma3_88", "gemma3_256"};
  return names;
}

inline uint64_t fnv1a(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

// Odd multiples of 2^-8 in (-1, 1), exact in bf16: the top bytes of splitmix64's outputs in order.
inline std::vector<float> seeded_uniform(std::string_view key, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  uint64_t state = fnv1a(key);
  for (float& v : out) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    v = static_cast<float>(2 * static_cast<int>(z >> 56) - 255) / 256;
  }
  return out;
}

inline std::vector<float> seeded_weights(const TensorInfo& t, NormWeight norm) {
  std::vector<float> out = seeded_uniform(t.name, t.rows() * t.cols());
  float scale = 0.25f, offset = 0;
  if (t.shape.size() == 1) {
    offset = t.name.ends_with("bias") || norm == NormWeight::kMinusOne ? 0.0f : 1.0f;
  } else if (!t.name.ends_with("embed_tokens.weight") && !t.name.ends_with("lm_head.weight")) {
    scale = 1;  // the largest power of two that is at most 2 / sqrt(columns)
    while (scale * scale * static_cast<float>(t.cols()) > 4) scale /= 2;
  }
  for (float& v : out) v = offset + v * scale;
  return out;
}

// One of these models as a directory that every loader accepts, with its stored outputs.
class SeededModel {
 public:
  explicit SeededModel(const std::string& name)
      : tensors(fixture(name) + "/golden.safetensors"),
        facts(nlohmann::json::parse(text_of(fixture(name) + "/golden.json"))) {
    const std::string text = text_of(fixture(name) + "/config.json");
    std::ofstream(dir_.file("config.json")) << text;
    const ModelConfig config = parse_hf_config(text, "config.json");
    write_safetensors(dir_.file("model.safetensors"), expected_tensors(config),
                      [&](const TensorInfo& t) { return seeded_weights(t, config.norm_weight); });
  }
  const std::string& path() const { return dir_.path(); }
  std::vector<std::vector<int32_t>> sequences() const {
    std::vector<std::vector<int32_t>> out;
    for (const char* seq : {"seq0", "seq1", "seq2"})
      out.push_back(tensors.ids(std::string(seq) + ".input_ids"));
    return out;
  }

  const GoldenTensors tensors;
  const nlohmann::json facts;

 private:
  static std::string fixture(const std::string& name) {
    return std::string(RL_FIXTURES) + "/seeded/" + name;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const TempDir dir_;
};

}  // namespace rl::testing
