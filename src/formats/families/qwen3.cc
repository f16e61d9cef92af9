// Qwen3, dense: a norm over each query and key head, and a head size of its own.
#include "formats/families/family.h"
#include "formats/families/reading.h"
#include "formats/rope_config.h"

namespace rl {
namespace {

void read(const ConfigReader& in, ModelConfig& c) {
  require_silu(in);
  c.qk_norm = true;
  read_head_sizes(in, {.kv_heads = std::nullopt, .head_dim = 128}, c);
  read_qwen_windows(in, c);
  read_single_rope(in, c);
  c.tied_head = in.boolean("tie_word_embeddings", false);
}

void write(const ModelConfig& c, nlohmann::json& out) {
  out["rope_parameters"] = rope_json(c.rope);
  out["hidden_act"] = "silu";
  out["attention_bias"] = false;
  write_qwen_windows(c, out);
}

}  // namespace

const FamilyInfo kQwen3Family = {"qwen3", "qwen3", "Qwen3ForCausalLM", "Qwen3", read, write};

}  // namespace rl
