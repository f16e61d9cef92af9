// Rotary settings of a config.json, in both spellings: rope_parameters (transformers 5), or
// rope_theta beside rope_scaling (before). Missing values take the defaults of transformers 5; a
// type or key that this library does not follow is Error(kUnsupported).
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "formats/config_reader.h"
#include "ops/rope_table.h"

namespace rl {

// What a file that names no base means.
struct RopeDefaults {
  double theta;
  int64_t max_position;  // the original length of a scaling that names none
};

// The rope of a model whose layers share one.
RopeSpec read_rope(const ConfigReader& in, const RopeDefaults& defaults);

// The rope inside one object of the current spelling.
RopeSpec read_rope_object(const ConfigReader& rope, const RopeDefaults& defaults);

nlohmann::json rope_json(const RopeSpec& rope);

}  // namespace rl
