// Llama, and models saved as it (SmolLM2, with a tied head).
#include "formats/families/family.h"
#include "formats/families/reading.h"
#include "formats/rope_config.h"

namespace rl {
namespace {

void read(const ConfigReader& in, ModelConfig& c) {
  require_silu(in);
  refuse_windows(in, c);
  // Files that predate grouped heads leave out num_key_value_heads.
  read_head_sizes(in, {.kv_heads = 0, .head_dim = 0}, c);
  read_single_rope(in, c);
  c.tied_head = in.boolean("tie_word_embeddings", false);
}

void write(const ModelConfig& c, nlohmann::json& out) {
  out["rope_parameters"] = rope_json(c.rope);
  out["hidden_act"] = "silu";
  out["attention_bias"] = false;
  out["mlp_bias"] = false;
}

}  // namespace

const FamilyInfo kLlamaFamily = {"llama", "llama", "LlamaForCausalLM", "Llama", read, write};

}  // namespace rl
