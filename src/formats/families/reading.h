// What several families read alike. Each function is called by a family's read().
#pragma once
#include <optional>
#include <vector>

#include "formats/config_reader.h"
#include "formats/model_config.h"

namespace rl {

// num_key_value_heads and head_dim. A fallback of 0 means: as many as heads, and hidden / heads;
// without one the key is required.
struct HeadDefaults {
  std::optional<int64_t> kv_heads, head_dim;
};
void read_head_sizes(const ConfigReader& in, const HeadDefaults& defaults, ModelConfig& config);

// Refuses a hidden_act other than silu; absent is silu.
void require_silu(const ConfigReader& in);

// The one rope of all layers into config.rope; its base is 10000 where the file names none.
void read_single_rope(const ConfigReader& in, ModelConfig& config);

// layer_types as one flag per layer, 1 for sliding_attention; nullopt when the file has none.
// Another type, or another number of layers, is an error.
std::optional<std::vector<uint8_t>> read_layer_types(const ConfigReader& in,
                                                     const ModelConfig& config);
std::vector<std::string> layer_types(const ModelConfig& config);

// Gives the flagged layers a window of the last `window` keys. With a flag set, window comes from
// `key` and must be above 0.
void set_windows(const ConfigReader& in, const char* key, int64_t window,
                 std::vector<uint8_t> flags, ModelConfig& config);

// Every layer attends all keys: windows, and the settings that would switch them on, are refused.
void refuse_windows(const ConfigReader& in, const ModelConfig& config);

// use_sliding_window, sliding_window, max_window_layers and layer_types of Qwen2 and Qwen3: layers
// from max_window_layers on have a window, when they are switched on.
void read_qwen_windows(const ConfigReader& in, ModelConfig& config);
void write_qwen_windows(const ModelConfig& config, nlohmann::json& out);

}  // namespace rl
