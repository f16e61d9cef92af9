// Readers that several families share. Each is called by a family's read().
#pragma once
#include <optional>
#include <vector>

#include "formats/config_reader.h"
#include "formats/model_config.h"

namespace rl {

// num_key_value_heads and head_dim. A fallback of 0 means: as many as heads, and hidden / heads;
// without a fallback the key is required.
struct HeadDefaults {
  std::optional<int64_t> kv_heads, head_dim;
};
void read_head_sizes(const ConfigReader& in, const HeadDefaults& defaults, ModelConfig& config);

// Refuses a hidden_act other than silu; absent is silu.
void require_silu(const ConfigReader& in);

// Reads RoPE settings common to all layers into config.rope; theta defaults to 10000.
void read_single_rope(const ConfigReader& in, ModelConfig& config);

// layer_types as one flag per layer, 1 for sliding_attention; nullopt if the file has none. Another
// type, or a wrong number of layers, is an error.
std::optional<std::vector<uint8_t>> read_layer_types(const ConfigReader& in,
                                                     const ModelConfig& config);
std::vector<std::string> layer_types(const ModelConfig& config);

// Gives the flagged layers a window of the last `window` keys. If any flag is set, window (read
// from `key`) must be above 0.
void set_windows(const ConfigReader& in, const char* key, int64_t window,
                 std::vector<uint8_t> flags, ModelConfig& config);

// Every layer attends all keys: refuses windows and the settings that would enable them.
void refuse_windows(const ConfigReader& in, const ModelConfig& config);

// use_sliding_window, sliding_window, max_window_layers and layer_types of Qwen2 and Qwen3: if
// enabled, layers from max_window_layers on have a window.
void read_qwen_windows(const ConfigReader& in, ModelConfig& config);
void write_qwen_windows(const ModelConfig& config, nlohmann::json& out);

}  // namespace rl
