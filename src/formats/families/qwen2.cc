// Qwen2 and Qwen2.5: biases on q, k and v.
#include "formats/families/family.h"
#include "formats/families/reading.h"
#include "formats/rope_config.h"

namespace rl {
namespace {

void read(const ConfigReader& in, ModelConfig& c) {
  require_silu(in);
  c.qkv_bias = true;
  read_head_sizes(in, {.kv_heads = std::nullopt, .head_dim = 0}, c);
  read_qwen_windows(in, c);
  read_single_rope(in, c);
  c.tied_head = in.boolean("tie_word_embeddings", false);
}

void write(const ModelConfig& c, nlohmann::json& out) {
  out["rope_parameters"] = rope_json(c.rope);
  out["hidden_act"] = "silu";
  write_qwen_windows(c, out);
}

}  // namespace

const FamilyInfo kQwen2Family = {"qwen2", "qwen2", "Qwen2ForCausalLM", "Qwen2", read, write};

}  // namespace rl
