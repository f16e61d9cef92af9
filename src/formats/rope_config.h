// RoPE settings of a config.json, in both spellings: rope_parameters (transformers 5), or
// rope_theta with rope_scaling (before). Missing values take the defaults of transformers 5; a type
// or key that this library does not implement is Error(kUnsupported).
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "formats/config_reader.h"
#include "ops/rope_table.h"

namespace rl {

// Values for what a file leaves out.
struct RopeDefaults {
  double theta;
  int64_t max_position;  // the original length, if a scaling gives none
};

// The RoPE settings of a model whose layers share them.
RopeSpec read_rope(const ConfigReader& in, const RopeDefaults& defaults);

// RoPE settings from one object of the current spelling.
RopeSpec read_rope_object(const ConfigReader& rope, const RopeDefaults& defaults);

nlohmann::json rope_json(const RopeSpec& rope);

}  // namespace rl
