// config.json and generation_config.json of a Hugging Face directory. Both spellings are read:
// rope_parameters and dtype (transformers 5), rope_theta, rope_scaling and torch_dtype (before). A
// setting that changes the arithmetic in a way this library does not implement is
// Error(kUnsupported) naming file and JSON pointer; other keys are ignored. A sequence or token
// classification class with one label is a decoder with a scalar head.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/model_config.h"

namespace rl {

inline constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;

// Returns a validated configuration; path names the text in errors.
ModelConfig parse_hf_config(std::string_view text, const std::string& path);

// Adds the end-of-sequence ids of generation_config.json that the configuration does not list yet.
void merge_generation_config(std::string_view text, const std::string& path, ModelConfig& config);

// config.json in the current spelling, and generation_config.json, for a saved copy.
std::string render_hf_config(const ModelConfig& config, Dtype dtype);
std::string render_generation_config(const ModelConfig& config);

}  // namespace rl
