// Operators and access on template values: arithmetic, "in", attributes, subscripts and slices.
// Integers have 64 bits; a result that needs more is an error.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace rl::jinja {

// op is one of + - * / // % **.
Value binary(std::string_view op, const Value& a, const Value& b, JinjaBudget& budget);
Value negative(const Value& value);
bool contains(const Value& container, const Value& item, JinjaBudget& budget);

// value.name: a method, a member, or an undefined value. Names that begin with two underscores are
// Error(kUnsupported).
Value get_attribute(const Value& value, const std::string& name);
// value[key].
Value get_item(const Value& value, const Value& key, JinjaBudget& budget);

struct SliceBounds {
  std::optional<int64_t> begin, end, step;
};
Value get_slice(const Value& value, const SliceBounds& bounds, JinjaBudget& budget);

}  // namespace rl::jinja
