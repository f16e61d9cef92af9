// Valid and invalid values of every option, derived from the table alone.
#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "options/options.h"

namespace rl::testing {

inline bool is_unsigned(const OptionInfo& info) {
  return info.type == OptionType::kU64 || info.type == OptionType::kBytes;
}
inline bool is_signed(const OptionInfo& info) {
  return info.type == OptionType::kI64 || info.type == OptionType::kDurationNs;
}

// Values at both ends of the range and a few inside. Options that only accept their default have
// only that one.
inline std::vector<OptionValue> valid_values(const OptionInfo& info) {
  const OptionValue fallback = OptionSet().get_value(info.key);
  if (info.unsupported_reason[0] != '\0') return {fallback};
  const bool low = info.min.present, high = info.max.present;
  switch (info.type) {
    case OptionType::kBool:
      return {true, false};
    case OptionType::kI64:
    case OptionType::kDurationNs:
      return {fallback, low ? info.min.i64 : std::numeric_limits<int64_t>::min(),
              high ? info.max.i64 : std::numeric_limits<int64_t>::max()};
    case OptionType::kU64:
    case OptionType::kBytes:
      return {fallback, low ? info.min.u64 : 0,
              high ? info.max.u64 : std::numeric_limits<uint64_t>::max()};
    case OptionType::kF64: {
      const double huge = std::numeric_limits<double>::max();
      const double least = low ? info.min.f64 : -huge, most = high ? info.max.f64 : huge;
      return {fallback, info.min.inclusive ? least : std::nextafter(least, huge),
              info.max.inclusive ? most : std::nextafter(most, -huge)};
    }
    case OptionType::kString:
      return {fallback, std::string("/a b,c=\"d\\e\"/\xC3\xA9\xE2\x82\xAC")};
    case OptionType::kEnum: {
      std::vector<OptionValue> choices;
      for (size_t i = 0; i < info.num_choices; ++i) choices.emplace_back(info.choices[i].name);
      return choices;
    }
    case OptionType::kStringList:
      return {fallback, std::vector<std::string>{"a,b", "\n\t\x01\"", "\\n", "\xF0\x9F\x99\x82"}};
    case OptionType::kI64List:
      return {fallback, std::vector<int64_t>{low ? info.min.i64 : -1, high ? info.max.i64 : 1}};
  }
  return {};
}

// One step beyond each bound, for numbers and lists of numbers.
inline std::vector<OptionValue> values_beyond(const OptionInfo& info) {
  std::vector<OptionValue> out;
  const double huge = std::numeric_limits<double>::infinity();
  if (is_signed(info)) {
    if (info.min.present) out.emplace_back(info.min.i64 - 1);
    if (info.max.present) out.emplace_back(info.max.i64 + 1);
  } else if (is_unsigned(info)) {
    if (info.max.present) out.emplace_back(info.max.u64 + 1);
  } else if (info.type == OptionType::kF64) {
    const auto first_bad = [](const OptionBound& b, double away) {
      return b.inclusive ? std::nextafter(b.f64, away) : b.f64;
    };
    if (info.min.present) out.emplace_back(first_bad(info.min, -huge));
    if (info.max.present) out.emplace_back(first_bad(info.max, huge));
  } else if (info.type == OptionType::kI64List) {
    if (info.min.present) out.emplace_back(std::vector<int64_t>{info.min.i64 - 1});
    if (info.max.present) out.emplace_back(std::vector<int64_t>{info.max.i64 + 1});
  } else if (info.type == OptionType::kEnum) {
    out.emplace_back(std::string("no such choice"));
  }
  return out;
}

}  // namespace rl::testing
