// Head sizes, RoPE and windows as most families spell them.
#include "formats/families/reading.h"

#include <algorithm>

#include "formats/rope_config.h"

namespace rl {

void read_head_sizes(const ConfigReader& in, const HeadDefaults& defaults, ModelConfig& c) {
  const auto kv_heads = in.optional_integer("num_key_value_heads");
  if (kv_heads)
    c.kv_heads = *kv_heads;
  else if (defaults.kv_heads)
    c.kv_heads = *defaults.kv_heads ? *defaults.kv_heads : c.heads;
  else
    c.kv_heads = in.integer("num_key_value_heads");
  if (const auto head_dim = in.optional_integer("head_dim")) {
    c.head_dim = *head_dim;
    return;
  }
  if (!defaults.head_dim) in.require("head_dim");
  if (*defaults.head_dim != 0) {
    c.head_dim = *defaults.head_dim;
    return;
  }
  if (c.heads < 1 || c.hidden < 1 || c.hidden % c.heads != 0) {
    in.fail(Code::kOutOfRange, "num_attention_heads",
            str("is ", c.heads, ", which does not divide hidden_size ", c.hidden));
  }
  c.head_dim = c.hidden / c.heads;
}

void require_silu(const ConfigReader& in) {
  const auto act = in.optional_text("hidden_act");
  in.refuse_unless(!act || *act == "silu", "hidden_act", "silu");
}

void read_single_rope(const ConfigReader& in, ModelConfig& c) {
  c.rope = read_rope(in, {.theta = 10000.0, .max_position = c.max_position});
}

std::optional<std::vector<uint8_t>> read_layer_types(const ConfigReader& in, const ModelConfig& c) {
  const char* const key = "layer_types";
  const nlohmann::json* types = in.find(key);
  if (types == nullptr) return std::nullopt;
  if (!types->is_array())
    in.fail(Code::kWrongType, key, str("is ", types->type_name(), ", not an array"));
  if (!std::in_range<int64_t>(types->size()) || static_cast<int64_t>(types->size()) != c.layers) {
    in.fail(Code::kConflict, key,
            str("has ", types->size(), " entries, but num_hidden_layers is ", c.layers));
  }
  std::vector<uint8_t> out;
  for (const auto& type : *types) {
    in.refuse_unless(type == "full_attention" || type == "sliding_attention", key,
                     "full_attention or sliding_attention in every layer");
    out.push_back(type == "sliding_attention" ? 1 : 0);
  }
  return out;
}

std::vector<std::string> layer_types(const ModelConfig& c) {
  std::vector<std::string> out;
  for (int64_t l = 0; l < c.layers; ++l)
    out.push_back(c.is_windowed(l) ? "sliding_attention" : "full_attention");
  return out;
}

void set_windows(const ConfigReader& in, const char* key, int64_t window,
                 std::vector<uint8_t> flags, ModelConfig& c) {
  if (std::find(flags.begin(), flags.end(), 1) == flags.end()) return;
  if (window < 1 || window > kModelCaps.max_position) {
    in.fail(Code::kOutOfRange, key, str("is ", window, ", expected 1..", kModelCaps.max_position));
  }
  c.window = window;
  c.windowed = std::move(flags);
}

void refuse_windows(const ConfigReader& in, const ModelConfig& c) {
  in.refuse_true({"use_sliding_window"});
  in.refuse_present({"sliding_window"});
  const auto types = read_layer_types(in, c);
  const bool full = !types || std::find(types->begin(), types->end(), 1) == types->end();
  in.refuse_unless(full, "layer_types", "full_attention in every layer");
}

void read_qwen_windows(const ConfigReader& in, ModelConfig& c) {
  // Files give a window even with use_sliding_window false, where it has no effect.
  const bool use = in.boolean("use_sliding_window", false);
  // An absent window means 4096, null means none.
  const int64_t window =
      in.has("sliding_window") ? in.optional_integer("sliding_window").value_or(0) : 4096;
  auto flags = read_layer_types(in, c);
  if (!flags) {
    const int64_t first = in.optional_integer("max_window_layers").value_or(28);
    flags.emplace();
    for (int64_t l = 0; l < c.layers; ++l)
      flags->push_back(use && window != 0 && l >= first ? 1 : 0);
  }
  const bool any = std::find(flags->begin(), flags->end(), 1) != flags->end();
  if (any && !use)
    in.fail(Code::kConflict, "layer_types",
            "has sliding_attention, but use_sliding_window is false");
  set_windows(in, "sliding_window", window, std::move(*flags), c);
}

void write_qwen_windows(const ModelConfig& c, nlohmann::json& out) {
  out["use_sliding_window"] = !c.windowed.empty();
  out["sliding_window"] = c.windowed.empty() ? nlohmann::json(nullptr) : nlohmann::json(c.window);
  out["layer_types"] = layer_types(c);
}

}  // namespace rl
