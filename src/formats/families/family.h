// What a family is: how its config.json becomes a ModelConfig and back. A family has no code of its
// own in the forward; all it does is set traits of ModelConfig, which forward() and backward()
// follow.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/config_reader.h"
#include "formats/model_config.h"

namespace rl {

// How transformers names the classes of a decoder with a linear layer of labels for a head.
inline constexpr std::string_view kSequenceScorer = "ForSequenceClassification";
inline constexpr std::string_view kTokenScorer = "ForTokenClassification";

struct FamilyInfo {
  const char* name;          // for people and hosts
  const char* model_type;    // of config.json
  const char* architecture;  // the class that config.json names
  const char* stem;          // of the classes with a scalar head: stem + kSequenceScorer
  // Sets head sizes, traits, rope and tied_head from the file; every other size is there. A setting
  // that changes the arithmetic in a way the traits cannot say is Error(kUnsupported).
  void (*read)(const ConfigReader& in, ModelConfig& config);
  // Adds the family's own keys, in the current spelling, to those that all families have.
  void (*write)(const ModelConfig& config, nlohmann::json& out);
};

#define X(name) extern const FamilyInfo k##name##Family;
RL_MODEL_FAMILIES(X)
#undef X

const FamilyInfo& family_info(Family family);
// The family of a model_type; null when none is known by it.
const Family* find_family(std::string_view model_type);
// "llama, qwen2, ...", every model_type.
std::string known_model_types();

}  // namespace rl
