// The filters. Each binds its own arguments; a table maps names to them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/encoding/unicode.h"
#include "jinja/calls.h"
#include "jinja/operators.h"
#include "jinja/text_methods.h"

namespace rl::jinja {
namespace {

struct Call {
  const Value& input;
  const std::string& name;
  const Arguments& arguments;
  JinjaBudget& budget;

  Bound bind(Bound::Names names, size_t required = 0) const {
    return Bound(str("filter ", name), arguments, names, required);
  }
  MarkedText text() const { return to_text(input, budget); }
};

// The elements that map, select and reject visit; none if the value is false.
std::vector<Value> elements_if_true(const Value& value, JinjaBudget& budget) {
  return truth(value) ? elements(value, budget) : std::vector<Value>();
}

// A member by a dotted path, as in filter arguments: "function.name" or an index.
Value member_at(const Value& item, const Value& path, JinjaBudget& budget) {
  if (!path.as_text()) return get_item(item, path, budget);
  Value at = item;
  std::string_view rest = path.as_text()->bytes();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    budget.spend(1);
    at = get_item(at, is_index ? Value::integer(index) : Value::text(part), budget);
    if (dot == rest.npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

// The key for comparing items: a member if one is named, case-insensitive unless case_sensitive.
Value sort_key(const Value& item, const Value* attribute, bool case_sensitive,
               JinjaBudget& budget) {
  Value key = attribute ? member_at(item, *attribute, budget) : item;
  if (case_sensitive || !key.as_text()) return key;
  return Value::text(change_case(*key.as_text(), Case::kLower, budget));
}

std::vector<Value> sorted(const std::vector<Value>& items, const std::vector<Value>& keys,
                          bool reverse, JinjaBudget& budget) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int sign = compare(keys[a], keys[b], budget);
    return reverse ? sign > 0 : sign < 0;
  });
  std::vector<Value> out;
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

Value same(const Call& call) {
  call.bind({});
  return call.input;
}
Value string_filter(const Call& call) {
  call.bind({});
  return Value::text(call.text());
}
Value length_filter(const Call& call) {
  call.bind({});
  return Value::integer(length_of(call.input));
}
Value list_filter(const Call& call) {
  call.bind({});
  return make_list(elements(call.input, call.budget), call.budget);
}
Value trim_filter(const Call& call) {
  const Bound args = call.bind({"chars"});
  std::optional<std::string_view> characters;
  if (args.given(0)) characters = args.text(0).bytes();
  return Value::text(strip(call.text(), Sides::kBoth, characters));
}
Value case_filter(const Call& call) {
  call.bind({});
  const Case to = call.name == "upper"   ? Case::kUpper
                  : call.name == "lower" ? Case::kLower
                  : call.name == "title" ? Case::kTitleWords
                                         : Case::kCapitalize;
  return Value::text(change_case(call.text(), to, call.budget));
}
Value default_filter(const Call& call) {
  const Bound args = call.bind({"default_value", "boolean"});
  const bool missing = call.input.is_undefined() || (args.flag(1, false) && !truth(call.input));
  if (!missing) return call.input;
  return args[0] ? *args[0] : Value::text("");
}

Value join_filter(const Call& call) {
  const Bound args = call.bind({"d", "attribute"});
  const MarkedText separator = args[0] ? to_text(*args[0], call.budget) : MarkedText();
  MarkedText out;
  bool first = true;
  for (const Value& item : elements(call.input, call.budget)) {
    const MarkedText text =
        to_text(args.given(1) ? member_at(item, *args[1], call.budget) : item, call.budget);
    const size_t added = text.size() + separator.size();
    call.budget.spend_text(out.size() + added, added);
    if (!first) out.append(separator);
    out.append(text);
    first = false;
  }
  return Value::text(std::move(out));
}

Value replace_filter(const Call& call) {
  const Bound args = call.bind({"old", "new", "count"}, 2);
  const int64_t count = args.given(2) ? args.integer(2, -1) : -1;
  return Value::text(replace(call.text(), to_text(*args[0], call.budget),
                             to_text(*args[1], call.budget), count, call.budget));
}

Value ends_filter(const Call& call) {
  call.bind({});
  const std::vector<Value> items = elements(call.input, call.budget);
  if (items.empty()) return Value::undefined(str("an empty sequence has no ", call.name, " item"));
  return call.name == "first" ? items.front() : items.back();
}

Value reverse_filter(const Call& call) {
  call.bind({});
  if (call.input.as_text())
    return get_slice(call.input, {.begin = {}, .end = {}, .step = -1}, call.budget);
  std::vector<Value> items = elements(call.input, call.budget);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items), call.budget);
}

Value items_filter(const Call& call) {
  call.bind({});
  if (call.input.is_undefined()) return make_list({}, call.budget);
  if (!call.input.as_dict()) fail_type("filter items needs a mapping, not", call.input);
  return call_method({call.input, "items"}, {}, call.budget);
}

Value sort_filter(const Call& call) {
  const Bound args = call.bind({"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> items = elements(call.input, call.budget);
  if (args.given(2) && args[2]->as_text() &&
      args[2]->as_text()->bytes().find(',') != std::string::npos) {
    throw Error(Code::kUnsupported, "filter sort by several attributes is not supported");
  }
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(sort_key(item, args.given(2), args.flag(1, false), call.budget));
  }
  return make_list(sorted(items, keys, args.flag(0, false), call.budget), call.budget);
}

Value dictsort_filter(const Call& call) {
  const Bound args = call.bind({"case_sensitive", "by", "reverse"});
  const std::string_view by = args[1] ? std::string_view(args.text(1).bytes()) : "key";
  if (by != "key" && by != "value") args.fail(1, "is neither \"key\" nor \"value\"");
  if (!call.input.as_dict()) fail_type("filter dictsort needs a mapping, not", call.input);
  std::vector<Value> items, keys;
  for (const auto& [key, value] : call.input.as_dict()->entries) {
    items.push_back(make_list({key, value}, call.budget, true));
    keys.push_back(sort_key(by == "key" ? key : value, nullptr, args.flag(0, false), call.budget));
  }
  return make_list(sorted(items, keys, args.flag(2, false), call.budget), call.budget);
}

Value extreme_filter(const Call& call) {
  const Bound args = call.bind({"case_sensitive", "attribute"});
  const std::vector<Value> items = elements(call.input, call.budget);
  if (items.empty()) return Value::undefined("an empty sequence has no item");
  size_t best = 0;
  Value best_key = sort_key(items[0], args.given(1), args.flag(0, false), call.budget);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = sort_key(items[i], args.given(1), args.flag(0, false), call.budget);
    const int sign = compare(key, best_key, call.budget);
    if (call.name == "min" ? sign >= 0 : sign <= 0) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value unique_filter(const Call& call) {
  const Bound args = call.bind({"case_sensitive", "attribute"});
  std::vector<Value> out, keys;
  for (const Value& item : elements(call.input, call.budget)) {
    Value key = sort_key(item, args.given(1), args.flag(0, false), call.budget);
    const bool known = std::any_of(keys.begin(), keys.end(), [&](const Value& other) {
      return equal(other, key, call.budget);
    });
    if (known) continue;
    keys.push_back(std::move(key));
    out.push_back(item);
  }
  return make_list(std::move(out), call.budget);
}

Value sum_filter(const Call& call) {
  const Bound args = call.bind({"attribute", "start"});
  Value total = args[1] ? *args[1] : Value::integer(0);
  for (const Value& item : elements(call.input, call.budget)) {
    const Value term = args.given(0) ? member_at(item, *args[0], call.budget) : item;
    total = binary("+", total, term, call.budget);
  }
  return total;
}

Value abs_filter(const Call& call) {
  call.bind({});
  if (!call.input.is_number()) fail_type("filter abs needs a number, not", call.input);
  if (call.input.as<double>()) return Value::real(std::fabs(call.input.to_real()));
  return call.input.to_integer() < 0 ? negative(call.input)
                                     : Value::integer(call.input.to_integer());
}

double round_to(double value, int64_t precision, std::string_view method) {
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(value * scale) / scale;
  if (method == "floor") return std::floor(value * scale) / scale;
  char digits[400];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::fixed,
                                 static_cast<int>(precision))
                       .ptr;
  double rounded = 0;
  std::from_chars(digits, end, rounded);
  return rounded;
}

Value round_filter(const Call& call) {
  const Bound args = call.bind({"precision", "method"});
  const std::string_view method = args[1] ? std::string_view(args.text(1).bytes()) : "common";
  const int64_t precision = args.integer(0, 0);
  if (method != "common" && method != "ceil" && method != "floor") args.fail(1, "is not known");
  if (precision < 0 || precision > 15) args.fail(0, "is not in 0..15");
  if (!call.input.is_number()) fail_type("filter round needs a number, not", call.input);
  if (call.input.is_integer() && method == "common") {
    return Value::integer(call.input.to_integer());
  }
  return Value::real(round_to(call.input.to_real(), precision, method));
}

// Parses a number as int() and float() do.
std::optional<double> parse_real(const MarkedText& text) {
  const MarkedText bare = strip(text, Sides::kBoth, std::nullopt);
  const char* begin = bare.bytes().data();
  const char* end = begin + bare.size();
  if (begin < end && *begin == '+') ++begin;
  double value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}
std::optional<int64_t> parse_integer(const MarkedText& text) {
  const MarkedText bare = strip(text, Sides::kBoth, std::nullopt);
  const char* begin = bare.bytes().data();
  const char* end = begin + bare.size();
  if (begin < end && *begin == '+') ++begin;
  int64_t value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec == std::errc::result_out_of_range) {
    throw Error(Code::kOutOfRange, "filter int got a number of more than 64 bits");
  }
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}
Value truncated(double value, const Value& otherwise) {
  if (!(std::fabs(value) < 9223372036854775808.0)) {
    if (std::isnan(value) || std::isinf(value)) return otherwise;
    throw Error(Code::kOutOfRange, "filter int got a number of more than 64 bits");
  }
  return Value::integer(static_cast<int64_t>(value));
}

Value int_filter(const Call& call) {
  const Bound args = call.bind({"default", "base"});
  if (args.integer(1, 10) != 10)
    throw Error(Code::kUnsupported, "filter int with a base other than 10 is not supported");
  const Value otherwise = args[0] ? *args[0] : Value::integer(0);
  if (call.input.is_undefined()) fail_undefined(call.input);
  if (call.input.is_integer()) return Value::integer(call.input.to_integer());
  if (call.input.as<double>()) return truncated(call.input.to_real(), otherwise);
  if (!call.input.as_text()) return otherwise;
  if (const auto whole = parse_integer(*call.input.as_text())) return Value::integer(*whole);
  const auto real = parse_real(*call.input.as_text());
  return real ? truncated(*real, otherwise) : otherwise;
}

Value float_filter(const Call& call) {
  const Bound args = call.bind({"default"});
  if (call.input.is_undefined()) fail_undefined(call.input);
  if (call.input.is_number()) return Value::real(call.input.to_real());
  const auto real = call.input.as_text() ? parse_real(*call.input.as_text()) : std::nullopt;
  if (real) return Value::real(*real);
  return args[0] ? *args[0] : Value::real(0);
}

Value indent_filter(const Call& call) {
  const Bound args = call.bind({"width", "first", "blank"});
  MarkedText indentation;
  if (args[0] && args[0]->as_text()) {
    indentation = *args[0]->as_text();
  } else {
    const int64_t width = args.integer(0, 4);
    if (width > 1000) args.fail(0, "is above 1000");
    indentation.append(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '),
                       MarkedText::Origin::kTemplate);
  }
  if (!call.input.as_text()) fail_type("filter indent needs a string, not", call.input);
  MarkedText text = *call.input.as_text(), out;
  text.append("\n", MarkedText::Origin::kTemplate);
  bool first = true;
  for (const MarkedText& line : lines_of(text, false, call.budget)) {
    const size_t added = line.size() + indentation.size() + 1;
    call.budget.spend_text(out.size() + added, added);
    if (!first) out.append("\n", MarkedText::Origin::kTemplate);
    const bool indents = first ? args.flag(1, false) : args.flag(2, false) || !line.empty();
    if (indents) out.append(indentation);
    out.append(line);
    first = false;
  }
  return Value::text(std::move(out));
}

Value map_filter(const Call& call) {
  std::vector<Value> out;
  if (call.arguments.positional.empty()) {
    const Bound args = call.bind({"attribute", "default"}, 1);
    for (const Value& item : elements_if_true(call.input, call.budget)) {
      Value member = member_at(item, *args[0], call.budget);
      if (member.is_undefined() && args.given(1)) member = *args[1];
      out.push_back(std::move(member));
    }
    return make_list(std::move(out), call.budget);
  }
  Arguments rest = call.arguments;
  rest.positional.erase(rest.positional.begin());
  const MarkedText* filter = call.arguments.positional[0].as_text();
  if (filter == nullptr)
    fail_type("filter map needs the name of a filter, not", call.arguments.positional[0]);
  const JinjaBudget::Level level(call.budget);
  for (const Value& item : elements_if_true(call.input, call.budget)) {
    out.push_back(apply_filter(filter->bytes(), item, rest, call.budget));
  }
  return make_list(std::move(out), call.budget);
}

// select, reject, selectattr and rejectattr.
Value select_filter(const Call& call) {
  const bool by_member = call.name.ends_with("attr");
  const bool wanted = call.name.starts_with("select");
  Arguments rest = call.arguments;
  const auto next = [&]() -> std::optional<Value> {
    if (rest.positional.empty()) return std::nullopt;
    Value value = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return value;
  };
  const std::optional<Value> member = by_member ? next() : std::nullopt;
  if (by_member && !member)
    throw Error(Code::kInvalidArgument, str("filter ", call.name, " needs the name of a member"));
  const std::optional<Value> test = next();
  if (test && !test->as_text()) fail_type("a test name must be a string, not", *test);
  std::vector<Value> out;
  for (const Value& item : elements_if_true(call.input, call.budget)) {
    const Value subject = member ? member_at(item, *member, call.budget) : item;
    const bool passes =
        test ? apply_test(test->as_text()->bytes(), subject, rest, call.budget) : truth(subject);
    if (passes == wanted) out.push_back(item);
  }
  return make_list(std::move(out), call.budget);
}

Value tojson_filter(const Call& call) {
  const Bound args = call.bind({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = args.flag(0, false);
  style.sort_keys = args.flag(3, false);
  if (const Value* indent = args.given(1)) {
    if (indent->as_text()) {
      style.indent = indent->as_text()->bytes();
    } else {
      const int64_t width = args.integer(1, 0);
      if (width > 1000) args.fail(1, "is above 1000");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    style.item_separator.pop_back();  // of ", "
  }
  if (const Value* separators = args.given(2)) {
    const List* pair = separators->as_list();
    if (!pair || pair->items.size() != 2 || !pair->items[0].as_text() ||
        !pair->items[1].as_text()) {
      args.fail(2, "is not a pair of strings");
    }
    style.item_separator = pair->items[0].as_text()->bytes();
    style.key_separator = pair->items[1].as_text()->bytes();
  }
  return Value::text(to_json_text(call.input, style, call.budget));
}

struct Filter {
  std::string_view name;
  Value (*call)(const Call&);
};
constexpr Filter kFilters[] = {{"abs", abs_filter},
                               {"capitalize", case_filter},
                               {"count", length_filter},
                               {"d", default_filter},
                               {"default", default_filter},
                               {"dictsort", dictsort_filter},
                               {"first", ends_filter},
                               {"float", float_filter},
                               {"indent", indent_filter},
                               {"int", int_filter},
                               {"items", items_filter},
                               {"join", join_filter},
                               {"last", ends_filter},
                               {"length", length_filter},
                               {"list", list_filter},
                               {"lower", case_filter},
                               {"map", map_filter},
                               {"max", extreme_filter},
                               {"min", extreme_filter},
                               {"reject", select_filter},
                               {"rejectattr", select_filter},
                               {"replace", replace_filter},
                               {"reverse", reverse_filter},
                               {"round", round_filter},
                               {"safe", same},
                               {"select", select_filter},
                               {"selectattr", select_filter},
                               {"sort", sort_filter},
                               {"string", string_filter},
                               {"sum", sum_filter},
                               {"title", case_filter},
                               {"tojson", tojson_filter},
                               {"trim", trim_filter},
                               {"unique", unique_filter},
                               {"upper", case_filter}};

}  // namespace

Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments,
                   JinjaBudget& budget) {
  budget.spend(1);
  for (const Filter& filter : kFilters) {
    if (filter.name == name) return filter.call(Call{input, name, arguments, budget});
  }
  throw Error(Code::kUnsupported, str("the filter ", quote_text(name), " is not supported"));
}

}  // namespace rl::jinja
