// A family defines how its config.json becomes a ModelConfig and back. It has no code of its own in
// the forward; it only sets traits of ModelConfig, which forward() and backward() follow.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/config_reader.h"
#include "formats/model_config.h"

namespace rl {

// transformers' names for the classes of a decoder with a linear classification head.
inline constexpr std::string_view kSequenceScorer = "ForSequenceClassification";
inline constexpr std::string_view kTokenScorer = "ForTokenClassification";

struct FamilyInfo {
  const char* name;          // for people and hosts
  const char* model_type;    // of config.json
  const char* architecture;  // the class that config.json names
  const char* stem;          // of the classes with a scalar head: stem + kSequenceScorer
  // Sets head sizes, traits, RoPE and tied_head from the file; every other size is already set. A
  // setting that changes the arithmetic in a way the traits cannot express is Error(kUnsupported).
  void (*read)(const ConfigReader& in, ModelConfig& config);
  // Adds the family's own keys, in the current spelling, to those common to all families.
  void (*write)(const ModelConfig& config, nlohmann::json& out);
};

#define X(name) extern const FamilyInfo k##name##Family;
RL_MODEL_FAMILIES(X)
#undef X

const FamilyInfo& family_info(Family family);
// The family of a model_type; null if unknown.
const Family* find_family(std::string_view model_type);
// "llama, qwen2, ...", every model_type.
std::string known_model_types();

}  // namespace rl
