// Refused combinations and presets, as tables generated from abi/option_rules.yml and
// abi/option_presets.yml. A rule is violated if all its conditions hold. OptionSet evaluates the
// rules and applies the presets.
#pragma once
#include <cstddef>
#include <string_view>

namespace rl {

// A condition on the value of key: it differs from the default, equals a text or not, or compares
// with the value of other, times the value of factor if that is not empty.
struct OptionCondition {
  enum Kind { kChanged, kIs, kIsNot, kAbove, kAtLeast };
  const char* key;
  Kind kind;
  const char* value;
  const char* other;
  const char* factor;
};

struct OptionRule {
  const char* key;  // the two keys to name
  const char* other;
  const OptionCondition* conditions;
  size_t num_conditions;
  const char* message;  // {key} is replaced by its value
};
struct OptionRules {
  const OptionRule* rows;
  size_t count;
};
OptionRules option_rules();

struct PresetSetting {
  const char* key;
  const char* value;  // as set_text reads it
  bool at_most;       // a smaller value that is set stays; 0 is no limit, so it does not
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
