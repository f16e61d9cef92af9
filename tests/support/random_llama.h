// A llama of any shape with random weights, as a directory that every loader accepts.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "formats/model_config.h"
#include "support/write_safetensors.h"

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
  write_safetensors(path + "/model.safetensors", expected_tensors(config_of(shape)),
                    [&](const TensorInfo& t) {
                      std::vector<float> values(static_cast<size_t>(t.rows() * t.cols()), 1.0f);
                      if (t.shape.size() > 1)
                        std::ranges::generate(values, [&] { return normal(rng); });
                      return values;
                    });
  return path;
}

}  // namespace rl::testing
