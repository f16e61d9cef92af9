// A llama of any shape with random weights, as a directory that every loader takes.
#pragma once
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "core/error.h"
#include "model/model_config.h"

namespace rl::testing {

struct LlamaShape {
  int64_t vocab = 256, hidden = 32, ffn = 48, layers = 3, heads = 2;
  int64_t max_position = 128;
  float scale = 0.3f;  // standard deviation of the weights
  unsigned seed = 1;
};

inline ModelConfig config_of(const LlamaShape& shape) {
  ModelConfig c;
  c.vocab = shape.vocab;
  c.hidden = shape.hidden;
  c.ffn = shape.ffn;
  c.layers = shape.layers;
  c.heads = c.kv_heads = shape.heads;
  c.head_dim = shape.hidden / shape.heads;
  c.max_position = shape.max_position;
  return c;
}

// Writes path, which must not exist, and returns it.
inline std::string write_random_llama(const std::string& path, const LlamaShape& shape) {
  std::filesystem::create_directory(path);
  std::ofstream(path + "/config.json")
      << "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": "
      << shape.vocab << ", \"hidden_size\": " << shape.hidden
      << ", \"intermediate_size\": " << shape.ffn << ", \"num_hidden_layers\": " << shape.layers
      << ", \"num_attention_heads\": " << shape.heads
      << ", \"max_position_embeddings\": " << shape.max_position
      << ", \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\", "
         "\"tie_word_embeddings\": false, \"eos_token_id\": 2, \"bos_token_id\": 1}";
  std::mt19937 rng(shape.seed);
  std::normal_distribution<float> normal(0.0f, shape.scale);
  std::string header = "{", data;
  for (const TensorInfo& t : expected_tensors(config_of(shape))) {
    const size_t begin = data.size(), count = static_cast<size_t>(t.rows() * t.cols());
    for (size_t i = 0; i < count; ++i) {
      const float value = t.shape.size() == 1 ? 1.0f : normal(rng);
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    header += str(begin == 0 ? "" : ",", "\"", t.name, "\":{\"dtype\":\"F32\",\"shape\":",
                  shape_text(t.shape), ",\"data_offsets\":[", begin, ",", data.size(), "]}");
  }
  header += "}";
  const uint64_t header_bytes = header.size();
  std::ofstream out(path + "/model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  out << header << data;
  return path;
}

}  // namespace rl::testing
