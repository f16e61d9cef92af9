// Small valid files built in memory: a safetensors header with data, a GGUF file, and a one-layer
// Llama in both forms. Tests change single fields of them and expect the matching error.
#pragma once
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/model_config.h"

namespace rl::test {

template <typename T>
std::string bytes_of(T v) {
  std::string out(sizeof v, '\0');
  std::memcpy(out.data(), &v, sizeof v);
  return out;
}

inline std::string safetensors_file(const std::string& header, size_t data_bytes) {
  std::string data(data_bytes, '\0');
  for (size_t i = 0; i + 4 <= data_bytes; i += 4) {
    const float v = static_cast<float>(i % 97) / 64.0f - 0.5f;
    std::memcpy(data.data() + i, &v, 4);
  }
  return bytes_of(uint64_t{header.size()}) + header + data;
}

inline const char* const kTinyConfig = R"({
  "model_type": "llama", "vocab_size": 5, "hidden_size": 32, "intermediate_size": 32,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
  "max_position_embeddings": 16, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
  "tie_word_embeddings": true, "eos_token_id": [2, 3], "bos_token_id": 1, "hidden_act": "silu"
})";

inline ModelConfig tiny_config() {
  ModelConfig c;
  c.model_type = "llama";
  c.vocab = 5;
  c.hidden = 32;
  c.ffn = 32;
  c.layers = 1;
  c.heads = 2;
  c.kv_heads = 1;
  c.head_dim = 4;
  c.max_position = 16;
  c.rms_eps = 1e-5f;
  c.rope.theta = 10000.0;
  c.tied_head = true;
  c.eos_ids = {2, 3};
  c.bos_id = 1;
  return c;
}

// The tensors of tiny_config() in F32.
inline std::string tiny_safetensors() {
  std::string header = "{";
  size_t at = 0;
  for (const TensorInfo& t : expected_tensors(tiny_config())) {
    const size_t end = at + static_cast<size_t>(t.rows() * t.cols()) * 4;
    header += str(at == 0 ? "" : ",", "\"", t.name,
                  "\":{\"dtype\":\"F32\",\"shape\":", shape_text(t.shape), ",\"data_offsets\":[",
                  at, ",", end, "]}");
    at = end;
  }
  return safetensors_file(header + "}", at);
}

// Writes GGUF bytes field by field; nothing is checked, so that broken files can be made.
class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;

  static std::string text(std::string_view v) {
    return bytes_of(uint64_t{v.size()}) + std::string(v);
  }
  void add(std::string_view key, uint32_t type, const std::string& value) {
    keys_.push_back(text(key) + bytes_of(type) + value);
  }
  void add_u32(std::string_view key, uint32_t v) { add(key, 4, bytes_of(v)); }
  void add_f32(std::string_view key, float v) { add(key, 6, bytes_of(v)); }
  void add_text(std::string_view key, std::string_view v) { add(key, 8, text(v)); }
  void add_texts(std::string_view key, const std::vector<std::string>& v) {
    std::string value = bytes_of(uint32_t{8}) + bytes_of(uint64_t{v.size()});
    for (const std::string& s : v) value += text(s);
    add(key, 9, value);
  }
  // dims in file order, columns first.
  void add_tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type,
                  std::string data) {
    std::string record = text(name) + bytes_of(static_cast<uint32_t>(dims.size()));
    for (uint64_t d : dims) record += bytes_of(d);
    tensors_.push_back(record + bytes_of(type) + bytes_of(uint64_t{data_.size()}));
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  }
  std::string build() const {
    std::string out = "GGUF" + bytes_of(version) + bytes_of(uint64_t{tensors_.size()}) +
                      bytes_of(uint64_t{keys_.size()});
    for (const auto& k : keys_) out += k;
    for (const auto& t : tensors_) out += t;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  std::vector<std::string> keys_, tensors_;
  std::string data_;
};

inline void add_tiny_metadata(GgufBuilder& b, uint32_t hidden = 32, uint32_t head_dim = 4) {
  b.add_text("general.architecture", "llama");
  b.add_u32("llama.embedding_length", hidden);
  b.add_u32("llama.block_count", 1);
  b.add_u32("llama.feed_forward_length", 32);
  b.add_u32("llama.context_length", 16);
  b.add_u32("llama.attention.head_count", 2);
  b.add_u32("llama.attention.head_count_kv", 1);
  b.add_u32("llama.attention.key_length", head_dim);
  b.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  b.add_f32("llama.rope.freq_base", 10000.0f);
  b.add_text("tokenizer.ggml.model", "gpt2");
  b.add_text("tokenizer.ggml.pre", "smollm");
  b.add_texts("tokenizer.ggml.tokens", {"a", "b", "<|x|>", "ab", "c"});
  b.add("tokenizer.ggml.token_type", 9,
        bytes_of(uint32_t{5}) + bytes_of(uint64_t{5}) + bytes_of(int32_t{1}) +
            bytes_of(int32_t{1}) + bytes_of(int32_t{3}) + bytes_of(int32_t{1}) +
            bytes_of(int32_t{1}));
  b.add_texts("tokenizer.ggml.merges", {"a b"});
  b.add_u32("tokenizer.ggml.eos_token_id", 2);
  b.add_u32("tokenizer.ggml.bos_token_id", 1);
  b.add("tokenizer.ggml.add_bos_token", 7, std::string(1, '\0'));
}

// n bytes below 60: a scale made of them is finite.
inline std::string pattern_bytes(size_t n) {
  std::string s(n, '\0');
  for (size_t i = 0; i < n; ++i) s[i] = static_cast<char>(i * 7 % 60);
  return s;
}

// The model of tiny_config() with Q8_0, Q4_0, Q4_1, F16 and F32 tensors.
inline std::string tiny_gguf() {
  GgufBuilder b;
  add_tiny_metadata(b);
  const auto fill = pattern_bytes;
  b.add_tensor("token_embd.weight", {32, 5}, 8, fill(5 * 34));
  b.add_tensor("blk.0.attn_norm.weight", {32}, 0, fill(128));
  b.add_tensor("blk.0.attn_q.weight", {32, 8}, 3, fill(8 * 20));
  b.add_tensor("blk.0.attn_k.weight", {32, 4}, 2, fill(4 * 18));
  b.add_tensor("blk.0.attn_v.weight", {32, 4}, 1, fill(4 * 64));
  b.add_tensor("blk.0.attn_output.weight", {8, 32}, 0, fill(32 * 32));
  b.add_tensor("blk.0.ffn_norm.weight", {32}, 0, fill(128));
  b.add_tensor("blk.0.ffn_gate.weight", {32, 32}, 2, fill(32 * 18));
  b.add_tensor("blk.0.ffn_up.weight", {32, 32}, 2, fill(32 * 18));
  b.add_tensor("blk.0.ffn_down.weight", {32, 32}, 3, fill(32 * 20));
  b.add_tensor("output_norm.weight", {32}, 0, fill(128));
  return b.build();
}

// A model with a tensor of each K format, Q5_0 and Q5_1. Its rows are as long as a K block.
inline std::string tiny_k_gguf() {
  GgufBuilder b;
  add_tiny_metadata(b, 256, 16);
  const auto fill = pattern_bytes;
  b.add_tensor("token_embd.weight", {256, 5}, 14, fill(5 * 210));
  b.add_tensor("blk.0.attn_norm.weight", {256}, 0, fill(1024));
  b.add_tensor("blk.0.attn_q.weight", {256, 32}, 12, fill(32 * 144));
  b.add_tensor("blk.0.attn_k.weight", {256, 16}, 13, fill(16 * 176));
  b.add_tensor("blk.0.attn_v.weight", {256, 16}, 14, fill(16 * 210));
  b.add_tensor("blk.0.attn_output.weight", {32, 256}, 7, fill(256 * 24));
  b.add_tensor("blk.0.ffn_norm.weight", {256}, 0, fill(1024));
  b.add_tensor("blk.0.ffn_gate.weight", {256, 32}, 10, fill(32 * 84));
  b.add_tensor("blk.0.ffn_up.weight", {256, 32}, 11, fill(32 * 110));
  b.add_tensor("blk.0.ffn_down.weight", {32, 256}, 6, fill(256 * 22));
  b.add_tensor("output_norm.weight", {256}, 0, fill(1024));
  return b.build();
}

}  // namespace rl::test
