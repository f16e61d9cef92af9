// A model whose layers differ in heads, KV heads, MLP width and window, with weights by the rule of
// seeded_model.h. No file format describes such a model, so it is a source of its own.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "formats/weight_source.h"
#include "support/seeded_model.h"

namespace rl::testing {

class LayeredSource : public WeightSource {
 public:
  explicit LayeredSource(ModelConfig config)
      : config_(std::move(config)), tensors_(expected_tensors(config_)) {
    validate(config_, path_);
    for (const TensorInfo& t : tensors_) weights_.push_back(seeded_weights(t, config_.norm_weight));
  }
  const ModelConfig& config() const override { return config_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  int64_t find(std::string_view name) const override {
    const auto is_it = [&](const TensorInfo& t) { return t.name == name; };
    const auto it = std::ranges::find_if(tensors_, is_it);
    return it == tensors_.end() ? -1 : it - tensors_.begin();
  }
  void read(int64_t index, int64_t first_row, std::span<float> out) const override {
    const auto at = static_cast<size_t>(index);
    std::copy_n(weights_[at].begin() + first_row * tensors_[at].cols(), out.size(), out.begin());
  }
  std::optional<TokenizerParts> tokenizer_parts() const override { return std::nullopt; }
  std::string tokenizer_json_path() const override { return {}; }
  std::vector<ChatTemplateText> chat_templates() const override { return {}; }
  const std::string& path() const override { return path_; }

 private:
  const ModelConfig config_;
  const std::vector<TensorInfo> tensors_;
  std::vector<std::vector<float>> weights_;
  const std::string path_ = "layered model";
};

// Layers alike, with biases and a RoPE of their own for windows.
inline ModelConfig uniform_config() {
  ModelConfig c;
  c.model_type = "llama";
  c.vocab = 224;
  c.hidden = 48;
  c.layers = 4;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.ffn = 40;
  c.max_position = 128;
  c.rms_eps = 1e-5f;
  c.rope.theta = 10000;
  c.local_rope = RopeSpec{.theta = 100};
  c.qkv_bias = true;
  return c;
}

// A model of 12 heads and KV heads, of each family's traits.
inline ModelConfig twelve_heads(bool normed) {
  ModelConfig c = uniform_config();
  c.layers = 2;
  c.heads = c.kv_heads = 12;
  c.ffn = 96;
  if (!normed) return c;
  c.qkv_bias = false;
  c.qk_norm = c.sandwich_norms = c.scaled_embedding = c.tied_head = true;
  return c;
}

inline ModelConfig layered_config() {
  ModelConfig c = uniform_config();
  c.own_layers = {{.heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 40, .window = 0},
                  {.heads = 4, .kv_heads = 1, .head_dim = 16, .ffn = 72, .window = 6},
                  {.heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 24, .window = 0},
                  {.heads = 2, .kv_heads = 1, .head_dim = 16, .ffn = 56, .window = 9}};
  return c;
}

// With head norms and norms of the outputs of attention and MLP instead of biases.
inline ModelConfig layered_normed_config() {
  ModelConfig c = layered_config();
  c.qkv_bias = false;
  c.qk_norm = c.sandwich_norms = c.scaled_embedding = c.tied_head = true;
  return c;
}

}  // namespace rl::testing
