// Mistral: Llama with a window on every layer, or on none.
#include "formats/families/family.h"
#include "formats/families/reading.h"
#include "formats/rope_config.h"

namespace rl {
namespace {

void read(const ConfigReader& in, ModelConfig& c) {
  require_silu(in);
  read_head_sizes(in, {.kv_heads = std::nullopt, .head_dim = 0}, c);
  // Null means no window; an absent key means transformers' default of 4096.
  const bool windowed = !in.has("sliding_window") || in.find("sliding_window") != nullptr;
  const int64_t window = in.optional_integer("sliding_window").value_or(4096);
  const std::vector<uint8_t> flags(static_cast<size_t>(c.layers), windowed ? 1 : 0);
  const auto types = read_layer_types(in, c);
  in.refuse_unless(!types || *types == flags, "layer_types",
                   "the attention type that sliding_window implies, in every layer");
  set_windows(in, "sliding_window", window, flags, c);
  read_single_rope(in, c);
  c.tied_head = in.boolean("tie_word_embeddings", false);
}

void write(const ModelConfig& c, nlohmann::json& out) {
  out["rope_parameters"] = rope_json(c.rope);
  out["hidden_act"] = "silu";
  out["sliding_window"] = c.windowed.empty() ? nlohmann::json(nullptr) : nlohmann::json(c.window);
}

}  // namespace

const FamilyInfo kMistralFamily = {"mistral", "mistral", "MistralForCausalLM",
                                   "Mistral", read,      write};

}  // namespace rl
