// Division and remainder round towards minus infinity, as in Python.
#include "jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/encoding/unicode.h"
#include "jinja/calls.h"
#include "jinja/text_methods.h"

namespace rl::jinja {
namespace {

[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  throw Error(Code::kWrongType,
              str("\"", op, "\" is not defined between ", type_name(a), " and ", type_name(b)));
}

[[noreturn]] void fail_zero() { throw Error(Code::kOutOfRange, "division by zero"); }

int64_t integer_power(int64_t base, int64_t exponent) {
  CheckedI64 result(int64_t{1}), factor(base);
  while (exponent > 0) {
    if (exponent & 1) result = result * factor;
    exponent >>= 1;
    if (exponent > 0) factor = factor * factor;
  }
  return result.get();
}

Value integer_arithmetic(char op, int64_t a, int64_t b) {
  const CheckedI64 x(a), y(b);
  switch (op) {
    case '+':
      return Value::integer((x + y).get());
    case '-':
      return Value::integer((x - y).get());
    case '*':
      return Value::integer((x * y).get());
    default:
      break;
  }
  if (b == 0) fail_zero();
  if (b == -1) return Value::integer(op == '%' ? 0 : (CheckedI64(int64_t{0}) - x).get());
  const int64_t remainder = a % b;
  const bool rounds_down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == '%') return Value::integer(rounds_down ? remainder + b : remainder);
  return Value::integer(rounds_down ? a / b - 1 : a / b);
}

Value real_arithmetic(char op, double a, double b) {
  switch (op) {
    case '+':
      return Value::real(a + b);
    case '-':
      return Value::real(a - b);
    case '*':
      return Value::real(a * b);
    default:
      break;
  }
  if (b == 0) fail_zero();
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (remainder == 0) remainder = std::copysign(0.0, b);
  if (op == '%') return Value::real(remainder);
  const double quotient = (a - remainder) / b;
  const double whole = std::floor(quotient);
  return Value::real(quotient - whole > 0.5 ? whole + 1 : whole);
}

Value power(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer() && b.to_integer() >= 0) {
    return Value::integer(integer_power(a.to_integer(), b.to_integer()));
  }
  if (a.to_real() == 0 && b.to_real() < 0) fail_zero();
  const double result = std::pow(a.to_real(), b.to_real());
  if (std::isnan(result) && !std::isnan(a.to_real()) && !std::isnan(b.to_real())) {
    throw Error(Code::kUnsupported, "a power with a complex result is not supported");
  }
  return Value::real(result);
}

Value repeat(const Value& what, int64_t times, JinjaBudget& budget) {
  const uint64_t count = times > 0 ? static_cast<uint64_t>(times) : 0;
  if (const MarkedText* text = what.as_text()) {
    if (text->empty()) return what;
    const uint64_t limit = budget.limits().max_text_bytes;
    const uint64_t size = count > limit / text->size() ? limit + 1 : count * text->size();
    budget.spend_text(size, size);
    MarkedText out;
    for (uint64_t i = 0; i < count; ++i) out.append(*text);
    return Value::text(std::move(out));
  }
  std::vector<Value> items;
  const std::vector<Value>& part = what.as_list()->items;
  for (uint64_t i = 0; i < count && !part.empty(); ++i) {
    budget.spend_items(part.size());
    items.insert(items.end(), part.begin(), part.end());
  }
  return make_list(std::move(items), budget, what.as_list()->is_tuple);
}

Value add(const Value& a, const Value& b, JinjaBudget& budget) {
  if (a.as_text() && b.as_text()) {
    const size_t size = a.as_text()->size() + b.as_text()->size();
    budget.spend_text(size, size);
    MarkedText out = *a.as_text();
    out.append(b.as_text() == a.as_text() ? MarkedText(*b.as_text()) : *b.as_text());
    return Value::text(std::move(out));
  }
  const List *x = a.as_list(), *y = b.as_list();
  if (!x || !y || x->is_tuple != y->is_tuple) fail_operands("+", a, b);
  budget.spend_items(x->items.size() + y->items.size());
  std::vector<Value> items = x->items;
  items.insert(items.end(), y->items.begin(), y->items.end());
  return make_list(std::move(items), budget, x->is_tuple);
}

Value missing_member(const Value& value, std::string_view name) {
  return Value::undefined(
      str("a value of type ", type_name(value), " has no member ", quote_text(name)));
}

Value loop_attribute(const Value& value, const std::string& name) {
  const Loop& loop = *value.as_loop();
  const auto size = static_cast<int64_t>(loop.items.size());
  const auto index0 = static_cast<int64_t>(loop.index0);
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "revindex") return Value::integer(size - index0);
  if (name == "revindex0") return Value::integer(size - index0 - 1);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(index0 + 1 == size);
  if (name == "length") return Value::integer(size);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem") {
    return index0 > 0 ? loop.items[loop.index0 - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index0 + 1 < size ? loop.items[loop.index0 + 1]
                             : Value::undefined("there is no next item");
  }
  return missing_member(value, name);
}

int64_t clamp_bound(int64_t bound, int64_t size, bool backwards) {
  if (bound < 0) bound = std::max<int64_t>(bound + size, backwards ? -1 : 0);
  return std::min<int64_t>(bound, backwards ? size - 1 : size);
}

// The indices that Python's slice visits.
std::vector<int64_t> slice_indices(const SliceBounds& bounds, int64_t size, JinjaBudget& budget) {
  const int64_t step = bounds.step.value_or(1);
  if (step == 0) throw Error(Code::kOutOfRange, "a slice of step 0");
  const bool backwards = step < 0;
  const int64_t begin = bounds.begin ? clamp_bound(*bounds.begin, size, backwards)
                        : backwards  ? size - 1
                                     : 0;
  const int64_t end = bounds.end  ? clamp_bound(*bounds.end, size, backwards)
                      : backwards ? -1
                                  : size;
  std::vector<int64_t> out;
  for (int64_t i = begin; backwards ? i > end : i < end;) {
    budget.spend(1);
    out.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return out;
}

// A long double holds every 64-bit integer; if a double does too, its division rounds only once.
double divide(const Value& a, const Value& b) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto is_exact = [](const Value& v) {
    return !v.is_integer() || (v.to_integer() <= kExact && v.to_integer() >= -kExact);
  };
  if (is_exact(a) && is_exact(b)) return a.to_real() / b.to_real();
  const auto wide = [](const Value& v) {
    return v.is_integer() ? static_cast<long double>(v.to_integer()) : v.to_real();
  };
  return static_cast<double>(wide(a) / wide(b));
}

}  // namespace

Value binary(std::string_view op, const Value& a, const Value& b, JinjaBudget& budget) {
  if (a.is_number() && b.is_number()) {
    if (op == "**") return power(a, b);
    if (op == "/") {
      if (b.to_real() == 0) fail_zero();
      return Value::real(divide(a, b));
    }
    if (a.is_integer() && b.is_integer()) {
      return integer_arithmetic(op.front(), a.to_integer(), b.to_integer());
    }
    return real_arithmetic(op.front(), a.to_real(), b.to_real());
  }
  if (op == "+") return add(a, b, budget);
  if (op == "*" && (a.as_text() || a.as_list()) && b.is_integer()) {
    return repeat(a, b.to_integer(), budget);
  }
  if (op == "*" && (b.as_text() || b.as_list()) && a.is_integer()) {
    return repeat(b, a.to_integer(), budget);
  }
  if (op == "%" && a.as_text()) {
    throw Error(Code::kUnsupported, "formatting a string with the operator % is not supported");
  }
  fail_operands(op, a, b);
}

Value negative(const Value& value) {
  if (value.is_integer()) {
    return Value::integer((CheckedI64(int64_t{0}) - CheckedI64(value.to_integer())).get());
  }
  if (value.as<double>()) return Value::real(-value.to_real());
  fail_type("unary \"-\" needs a number, not", value);
}

bool contains(const Value& container, const Value& item, JinjaBudget& budget) {
  if (container.is_undefined()) return false;
  if (const MarkedText* text = container.as_text()) {
    if (!item.as_text()) fail_type("a string cannot contain", item);
    budget.spend(text->size() / 16);
    return text->bytes().find(item.as_text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) {
    return item.as_text() && dict->find(item.as_text()->bytes()) != nullptr;
  }
  const List* list = container.as_list();
  if (list == nullptr) fail_type("\"in\" needs a string, list or mapping, not", container);
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& other) { return equal(other, item, budget); });
}

Value get_attribute(const Value& value, const std::string& name) {
  if (name.starts_with("__")) {
    throw Error(Code::kUnsupported, str("the attribute ", quote_text(name),
                                        " cannot be read: templates can only read data"));
  }
  if (value.is_undefined()) fail_undefined(value);
  if (value.as_loop() && name != "cycle" && name != "changed") return loop_attribute(value, name);
  if (Namespace* space = value.as_namespace()) {
    const Value* member = space->find(name);
    return member ? *member : missing_member(value, name);
  }
  if (is_method(value, name)) {
    return Value(Value::Data(std::make_shared<const Method>(Method{value, name})));
  }
  const Value* member = value.as_dict() ? value.as_dict()->find(name) : nullptr;
  return member ? *member : missing_member(value, name);
}

Value get_item(const Value& value, const Value& key, JinjaBudget& budget) {
  if (value.is_undefined()) fail_undefined(value);
  if (const MarkedText* name = key.as_text()) {
    const Value* member = value.as_dict() ? value.as_dict()->find(name->bytes()) : nullptr;
    return member ? *member : get_attribute(value, name->bytes());
  }
  const bool is_sequence = value.as_list() || value.as_text();
  if (!is_sequence || !key.is_integer()) {
    return Value::undefined(str("a value of type ", type_name(value),
                                " has no member under a key of type ", type_name(key)));
  }
  const int64_t size = length_of(value);
  int64_t index = key.to_integer();
  if (index < 0) index += size;
  if (index < 0 || index >= size) {
    return Value::undefined(
        str("index ", key.to_integer(), " of a ", type_name(value), " of ", size, " elements"));
  }
  if (const List* list = value.as_list()) return list->items[static_cast<size_t>(index)];
  const auto offsets = code_point_offsets(value.as_text()->bytes(), budget);
  const auto at = static_cast<size_t>(index);
  return Value::text(value.as_text()->substr(offsets[at], offsets[at + 1] - offsets[at]));
}

Value get_slice(const Value& value, const SliceBounds& bounds, JinjaBudget& budget) {
  if (const List* list = value.as_list()) {
    std::vector<Value> items;
    const auto size = static_cast<int64_t>(list->items.size());
    for (const int64_t i : slice_indices(bounds, size, budget)) {
      items.push_back(list->items[static_cast<size_t>(i)]);
    }
    return make_list(std::move(items), budget, list->is_tuple);
  }
  const MarkedText* text = value.as_text();
  if (text == nullptr) fail_type("cannot slice", value);
  const auto offsets = code_point_offsets(text->bytes(), budget);
  MarkedText out;
  for (const int64_t i : slice_indices(bounds, static_cast<int64_t>(offsets.size()) - 1, budget)) {
    const auto at = static_cast<size_t>(i);
    out.append(*text, offsets[at], offsets[at + 1] - offsets[at]);
  }
  return Value::text(std::move(out));
}

}  // namespace rl::jinja
