// The tests that follow "is".
#include <optional>

#include "core/encoding/unicode.h"
#include "jinja/calls.h"
#include "jinja/operators.h"
#include "jinja/text_methods.h"

namespace rl::jinja {
namespace {

// Tests of the type alone; nullopt for another name.
std::optional<bool> type_test(std::string_view name, const Value& v) {
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "string") return v.as_text() != nullptr;
  if (name == "mapping") return v.as_dict() != nullptr;
  if (name == "boolean") return v.as<bool>() != nullptr;
  if (name == "true") return v.as<bool>() && *v.as<bool>();
  if (name == "false") return v.as<bool>() && !*v.as<bool>();
  if (name == "integer") return v.as<int64_t>() != nullptr;
  if (name == "float") return v.as<double>() != nullptr;
  if (name == "number") return v.is_number();
  if (name == "iterable") {
    return v.is_undefined() || v.as_text() || v.as_list() || v.as_dict() || v.as_loop();
  }
  if (name == "sequence") return v.is_undefined() || v.as_text() || v.as_list() || v.as_dict();
  if (name == "callable") {
    return v.is_undefined() || v.as<Macro>() || v.as<Function>() || v.as_method();
  }
  return std::nullopt;
}

// Which signs of a comparison satisfy the test, as bits: 1 less, 2 equal, 4 greater.
int comparison(std::string_view name) {
  struct Entry {
    std::string_view name;
    int signs;
  };
  static constexpr Entry kEntries[] = {{"lt", 1}, {"<", 1},  {"lessthan", 1}, {"le", 3},
                                       {"<=", 3}, {"gt", 4}, {">", 4},        {"greaterthan", 4},
                                       {"ge", 6}, {">=", 6}};
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.signs;
  }
  return 0;
}

bool is_cased(const Value& value, Case to, JinjaBudget& budget) {
  const MarkedText text = to_text(value, budget);
  if (change_case(text, to, budget).bytes() != text.bytes()) return false;
  const Case other = to == Case::kUpper ? Case::kLower : Case::kUpper;
  return change_case(text, other, budget).bytes() != text.bytes();
}

double remainder(const Value& value, const Value& of, JinjaBudget& budget) {
  return binary("%", value, of, budget).to_real();
}

bool is_one_of_a_kind(const Value& value) { return value.is_none() || value.as<bool>(); }

}  // namespace

bool apply_test(const std::string& name, const Value& input, const Arguments& arguments,
                JinjaBudget& budget) {
  budget.spend(1);
  const std::string what = str("test ", name);
  if (const auto result = type_test(name, input)) {
    const Bound none(what, arguments, {});
    return *result;
  }
  if (name == "odd" || name == "even") {
    const Bound none(what, arguments, {});
    return remainder(input, Value::integer(2), budget) == (name == "odd" ? 1 : 0);
  }
  if (name == "upper" || name == "lower") {
    const Bound none(what, arguments, {});
    return is_cased(input, name == "upper" ? Case::kUpper : Case::kLower, budget);
  }
  const int signs = comparison(name);
  const bool is_equality = name == "eq" || name == "equalto" || name == "==";
  const bool is_difference = name == "ne" || name == "!=";
  const bool known = signs || is_equality || is_difference || name == "in" || name == "sameas" ||
                     name == "divisibleby";
  if (!known) {
    throw Error(Code::kUnsupported, str("the test ", quote_text(name), " is not supported"));
  }
  const Bound args(what, arguments, {"other"}, 1);
  if (signs) return (signs >> (compare(input, *args[0], budget) + 1) & 1) != 0;
  if (is_equality || is_difference) return equal(input, *args[0], budget) == is_equality;
  if (name == "in") return contains(*args[0], input, budget);
  if (name == "divisibleby") return remainder(input, *args[0], budget) == 0;
  if (!is_one_of_a_kind(input) && !is_one_of_a_kind(*args[0])) {
    throw Error(Code::kUnsupported, "test sameas between values without identity is not supported");
  }
  return type_name(input) == type_name(*args[0]) && equal(input, *args[0], budget);
}

}  // namespace rl::jinja
