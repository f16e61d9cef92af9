// Parsing, checking and printing of option values.
#include "options/option_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/encoding/utf8.h"

namespace rl {
namespace {

constexpr size_t kMaxTextBytes = 65536;
constexpr size_t kMaxListItems = 4096;
constexpr size_t kMaxListBytes = size_t{1} << 20;  // of all texts of a list

Error wrong_type(const OptionInfo& info, std::string_view text) {
  return Error(Code::kWrongType,
               str(info.key, ": \"", text, "\" is not of type ", option_type_name(info.type)))
      .with_key(info.key)
      .with_expected(option_expectation(info));
}

Error out_of_range(const OptionInfo& info, const std::string& seen) {
  return Error(Code::kOutOfRange,
               str(info.key, " is ", seen, ", expected ", option_expectation(info)))
      .with_key(info.key)
      .with_expected(option_expectation(info));
}

struct Suffix {
  std::string_view name;
  int64_t factor;
};
constexpr Suffix kDurations[] = {{"ns", 1},         {"us", 1000},         {"ms", 1000000},
                                 {"s", 1000000000}, {"min", 60000000000}, {"h", 3600000000000}};
constexpr Suffix kSizes[] = {{"B", 1},
                             {"KiB", int64_t{1} << 10},
                             {"MiB", int64_t{1} << 20},
                             {"GiB", int64_t{1} << 30},
                             {"TiB", int64_t{1} << 40}};

std::optional<int64_t> factor_of(const OptionInfo& info, std::string_view suffix) {
  if (suffix.empty()) return 1;
  const bool sizes = info.type == OptionType::kBytes;
  if (!sizes && info.type != OptionType::kDurationNs) return std::nullopt;
  const auto find = [&](const auto& table) -> std::optional<int64_t> {
    for (const Suffix& entry : table) {
      if (entry.name == suffix) return entry.factor;
    }
    return std::nullopt;
  };
  return sizes ? find(kSizes) : find(kDurations);
}

template <typename T>
T parse_integer(const OptionInfo& info, std::string_view text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  const bool negative = std::is_unsigned_v<T> && text.starts_with('-');
  if (negative || code == std::errc::result_out_of_range) {
    throw out_of_range(info, std::string(text));
  }
  if (code != std::errc()) throw wrong_type(info, text);
  const auto factor = factor_of(info, std::string_view(rest, static_cast<size_t>(end - rest)));
  if (!factor) throw wrong_type(info, text);
  if (__builtin_mul_overflow(value, static_cast<T>(*factor), &value)) {
    throw out_of_range(info, std::string(text));
  }
  return value;
}

double parse_double(const OptionInfo& info, std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::result_out_of_range) throw out_of_range(info, std::string(text));
  if (code != std::errc() || rest != end) throw wrong_type(info, text);
  return value;
}

std::vector<std::string> parse_list(const OptionInfo& info, std::string_view text) {
  std::vector<std::string> items;
  if (text.empty()) return items;
  items.emplace_back();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',') {
      items.emplace_back();
    } else if (c != '\\') {
      items.back() += c;
    } else {
      const char escaped = ++i < text.size() ? text[i] : '\0';
      if (escaped == 'n')
        items.back() += '\n';
      else if (escaped == 't')
        items.back() += '\t';
      else if (escaped == ',' || escaped == '\\')
        items.back() += escaped;
      else
        throw wrong_type(info, text);
    }
  }
  return items;
}

std::vector<int64_t> parse_i64_list(const OptionInfo& info, std::string_view text) {
  std::vector<int64_t> values;
  for (const std::string& item : parse_list(info, text)) {
    values.push_back(parse_integer<int64_t>(info, item));
  }
  return values;
}

template <typename T>
bool inside(const OptionInfo& info, T value, T OptionBound::*field) {
  const auto holds = [&](const OptionBound& bound, T a, T b) {
    return !bound.present || (bound.inclusive ? a <= b : a < b);
  };
  return holds(info.min, info.min.*field, value) && holds(info.max, value, info.max.*field);
}

void check_i64(const OptionInfo& info, int64_t value) {
  const bool power = !info.power_of_two || (value > 0 && std::has_single_bit(uint64_t(value)));
  if (!power || !inside(info, value, &OptionBound::i64)) throw out_of_range(info, str(value));
}

void check_utf8(const OptionInfo& info, const std::string& value) {
  const auto broken = find_broken_utf8(value);
  if (!broken) return;
  throw Error(Code::kInvalidArgument, str(info.key, " is not UTF-8 at byte ", *broken))
      .with_key(info.key);
}

void check_string(const OptionInfo& info, const std::string& value) {
  if (value.size() > kMaxTextBytes) {
    throw out_of_range(info, str("a string of ", value.size(), " bytes"));
  }
  if (info.type == OptionType::kEnum) {
    const OptionChoice* const end = info.choices + info.num_choices;
    const auto same = [&](const OptionChoice& choice) { return value == choice.name; };
    if (std::none_of(info.choices, end, same)) throw out_of_range(info, str("\"", value, "\""));
    return;
  }
  if (info.not_empty && value.empty()) throw out_of_range(info, "an empty string");
  check_utf8(info, value);
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(value.begin(), value.end(), control)) {
    throw Error(Code::kInvalidArgument, str(info.key, " holds a control character"))
        .with_key(info.key);
  }
}

void check_items(const OptionInfo& info, const std::vector<std::string>& items) {
  if (items.size() > kMaxListItems) {
    throw out_of_range(info, str("a list of ", items.size(), " elements"));
  }
  size_t bytes = 0;
  for (const std::string& item : items) {
    if (item.empty()) throw out_of_range(info, "a list with an empty element");
    if (item.size() > kMaxTextBytes) {
      throw out_of_range(info, str("a list with an element of ", item.size(), " bytes"));
    }
    check_utf8(info, item);
    bytes += item.size();
  }
  if (bytes > kMaxListBytes) throw out_of_range(info, str("a list of ", bytes, " bytes"));
}

void check_supported(const OptionInfo& info, const OptionValue& value) {
  if (info.unsupported_reason[0] == '\0') return;
  if (value == parse_option(info, info.default_text)) return;
  throw Error(Code::kNotInBuild, str(info.key, " cannot be set: ", info.unsupported_reason))
      .with_key(info.key);
}

std::string format_list(const std::vector<std::string>& items) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    for (const char c : items[i]) {
      if (c == '\n')
        out += "\\n";
      else if (c == '\t')
        out += "\\t";
      else if (c == ',' || c == '\\')
        (out += '\\') += c;
      else
        out += c;
    }
  }
  return out;
}

struct Formatter {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const std::vector<std::string>& v) const { return format_list(v); }
  std::string operator()(const std::vector<int64_t>& v) const {
    std::vector<std::string> items;
    for (const int64_t i : v) items.push_back(str(i));
    return format_list(items);
  }
  template <typename T>
  std::string operator()(const T& v) const {
    return str(v);
  }
};

}  // namespace

OptionValue parse_option(const OptionInfo& info, std::string_view text) {
  switch (info.type) {
    case OptionType::kBool:
      if (text != "true" && text != "false") throw wrong_type(info, text);
      return text == "true";
    case OptionType::kI64:
    case OptionType::kDurationNs:
      return parse_integer<int64_t>(info, text);
    case OptionType::kU64:
    case OptionType::kBytes:
      return parse_integer<uint64_t>(info, text);
    case OptionType::kF64:
      return parse_double(info, text);
    case OptionType::kString:
    case OptionType::kEnum:
      return std::string(text);
    case OptionType::kStringList:
      return parse_list(info, text);
    case OptionType::kI64List:
      return parse_i64_list(info, text);
  }
  RL_CHECK(!"every option type is parsed");
  return {};
}

void check_option(const OptionInfo& info, const OptionValue& value) {
  if (const auto* v = std::get_if<int64_t>(&value)) {
    check_i64(info, *v);
  } else if (const auto* u = std::get_if<uint64_t>(&value)) {
    const bool power = !info.power_of_two || std::has_single_bit(*u);
    if (!power || !inside(info, *u, &OptionBound::u64)) throw out_of_range(info, str(*u));
  } else if (const auto* f = std::get_if<double>(&value)) {
    const bool valid = std::isfinite(*f) && inside(info, *f, &OptionBound::f64);
    if (!valid) throw out_of_range(info, str(*f));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    check_string(info, *text);
  } else if (const auto* items = std::get_if<std::vector<std::string>>(&value)) {
    check_items(info, *items);
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
    if (numbers->size() > kMaxListItems) {
      throw out_of_range(info, str("a list of ", numbers->size(), " elements"));
    }
    for (const int64_t number : *numbers) check_i64(info, number);
  }
  check_supported(info, value);
}

std::string format_option(const OptionValue& value) { return std::visit(Formatter{}, value); }

}  // namespace rl
