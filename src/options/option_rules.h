// Combinations that are refused and presets, as tables generated from abi/option_rules.yml and
// abi/option_presets.yml. A rule is violated when all its conditions hold. OptionSet evaluates the
// one and applies the other.
#pragma once
#include <cstddef>
#include <string_view>

namespace rl {

// About the value of key: that it differs from the default, equals a text or not, or compares with
// the value of other, times that of factor where this is not empty.
struct OptionCondition {
  enum Kind { kChanged, kIs, kIsNot, kAbove, kAtLeast };
  const char* key;
  Kind kind;
  const char* value;
  const char* other;
  const char* factor;
};

struct OptionRule {
  const char* key;  // the two to name
  const char* other;
  const OptionCondition* conditions;
  size_t num_conditions;
  const char* message;  // {key} stands for a value
};
struct OptionRules {
  const OptionRule* rows;
  size_t count;
};
OptionRules option_rules();

struct PresetSetting {
  const char* key;
  const char* value;  // as set_text reads it
};
struct OptionPreset {
  const char* name;
  const char* doc;
  const PresetSetting* settings;
  size_t num_settings;
};
struct OptionPresets {
  const OptionPreset* rows;
  size_t count;
};
OptionPresets option_presets();
// An unknown name is kNotFound with the nearest ones.
const OptionPreset& require_preset(std::string_view name);

}  // namespace rl
