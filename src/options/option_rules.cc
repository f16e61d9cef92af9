// Evaluates the rules and applies the presets. Every value in a condition is already valid by
// itself.
#include "options/option_rules.h"

#include <algorithm>
#include <string>

#include "core/violations.h"
#include "options/option_text.h"
#include "options/options.h"

namespace rl {
namespace {

// The value of a numeric option, for comparison and products.
long double number_of(const OptionSet& set, std::string_view key) {
  const OptionInfo& info = require_option(key);
  if (info.type == OptionType::kF64) return set.get_f64(key);
  if (info.type == OptionType::kU64 || info.type == OptionType::kBytes) {
    return static_cast<long double>(set.get_u64(key));
  }
  return static_cast<long double>(set.get_i64(key));
}

long double limit_of(const OptionSet& set, const OptionCondition& condition) {
  const bool product = condition.factor[0] != '\0';
  return number_of(set, condition.other) * (product ? number_of(set, condition.factor) : 1);
}

bool holds(const OptionSet& set, const OptionCondition& condition) {
  switch (condition.kind) {
    case OptionCondition::kChanged:
      return !set.is_default(condition.key);
    case OptionCondition::kIs:
      return set.get_text(condition.key) == condition.value;
    case OptionCondition::kIsNot:
      return set.get_text(condition.key) != condition.value;
    case OptionCondition::kAbove:
      return number_of(set, condition.key) > limit_of(set, condition);
    case OptionCondition::kAtLeast:
      return number_of(set, condition.key) >= limit_of(set, condition);
  }
  RL_CHECK(!"every kind of condition is evaluated");
  return false;
}

// The message with {key} replaced by values.
std::string filled(const OptionSet& set, std::string_view message) {
  std::string out;
  while (!message.empty()) {
    const size_t open = message.find('{');
    out += message.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = message.find('}', open);
    RL_CHECK(close != std::string_view::npos);
    const std::string text = set.get_text(message.substr(open + 1, close - open - 1));
    out += text.empty() ? "empty" : text;
    message.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

std::vector<Error> OptionSet::validate_all() const {
  std::vector<Error> errors;
  const OptionRules rules = option_rules();
  for (const OptionRule* rule = rules.rows; rule != rules.rows + rules.count; ++rule) {
    const OptionCondition* const end = rule->conditions + rule->num_conditions;
    const auto met = [&](const OptionCondition& c) { return holds(*this, c); };
    if (!std::all_of(rule->conditions, end, met)) continue;
    errors.push_back(Error(Code::kConflict, filled(*this, rule->message))
                         .with_key(rule->key)
                         .with_other_key(rule->other));
  }
  return errors;
}

void OptionSet::validate() const {
  Violations violations;
  violations.add(validate_all());
  violations.throw_any();
}

const OptionPreset& require_preset(std::string_view name) {
  const OptionPresets presets = option_presets();
  std::vector<std::string> names;
  for (const OptionPreset* preset = presets.rows; preset != presets.rows + presets.count;
       ++preset) {
    if (preset->name == name) return *preset;
    names.emplace_back(preset->name);
  }
  names = nearest_names(name, std::move(names));
  std::string hint;
  for (const std::string& near : names) hint += str(hint.empty() ? "; nearest: " : ", ", near);
  const std::string shown(name.substr(0, 200));
  throw Error(Code::kNotFound, str("there is no preset \"", shown, "\"", hint))
      .with_key(shown)
      .with_nearest(std::move(names));
}

void OptionSet::apply_preset(std::string_view name) {
  const OptionPreset& preset = require_preset(name);
  OptionSet changed = *this;
  for (size_t i = 0; i < preset.num_settings; ++i) {
    const auto& [key, value, at_most] = preset.settings[i];
    changed.set_text(key, value);
    if (!at_most) continue;
    const int64_t now = get_i64(key);
    if (now > 0 && now < changed.get_i64(key)) changed.set_i64(key, now);
  }
  *this = std::move(changed);
}

}  // namespace rl
