// Look-ups in the generated table, and descriptions of a row for errors.
#include <algorithm>
#include <tuple>

#include "options/option_text.h"

namespace rl {
namespace {

// Number of edits (insert, delete, replace, swap of neighbours) that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

std::string_view last_part(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

constexpr size_t kFar = 1000;

// kFar above the limit. Most pairs are ruled out by length alone.
size_t distance_within(std::string_view a, std::string_view b, size_t limit) {
  const size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  const size_t distance = gap > limit ? kFar : edit_distance(a, b);
  return distance <= limit ? distance : kFar;
}

// A wrong key is near a valid one if few edits separate them, or if its last part is nearly right
// under a wrong group; otherwise kFar.
size_t nearness(std::string_view wrong, std::string_view key) {
  const std::string_view last = last_part(wrong);
  const size_t whole = distance_within(wrong, key, std::max<size_t>(2, wrong.size() / 4));
  const size_t part = distance_within(last, last_part(key), std::max<size_t>(1, last.size() / 4));
  return std::min(whole, part == kFar ? kFar : part + 1);
}

std::string bound_text(const OptionInfo& info, const OptionBound& bound) {
  switch (info.type) {
    case OptionType::kU64:
    case OptionType::kBytes:
      return str(bound.u64);
    case OptionType::kF64:
      return str(bound.f64);
    default:
      return str(bound.i64);
  }
}

std::string range_text(const OptionInfo& info) {
  std::string out;
  if (info.min.present) {
    out += str(info.min.inclusive ? " >= " : " > ", bound_text(info, info.min));
  }
  if (info.max.present) {
    out += str(info.min.present ? " and" : "", info.max.inclusive ? " <= " : " < ",
               bound_text(info, info.max));
  }
  if (info.power_of_two) out += ", a power of two";
  if (info.not_empty) out += ", not empty";
  return out;
}

}  // namespace

size_t option_count() { return option_table().count; }

const OptionInfo& option_at(size_t index) {
  if (index >= option_count()) {
    throw Error(Code::kOutOfRange,
                str("option index ", index, " is outside 0..", option_count() - 1));
  }
  return option_table().rows[index];
}

const OptionInfo* find_option(std::string_view key) {
  const OptionTable table = option_table();
  const OptionInfo* const end = table.rows + table.count;
  const auto less = [](const OptionInfo& row, std::string_view k) { return row.key < k; };
  const OptionInfo* const row = std::lower_bound(table.rows, end, key, less);
  return row != end && row->key == key ? row : nullptr;
}

const OptionInfo& require_option(std::string_view key) {
  if (const OptionInfo* row = find_option(key)) return *row;
  std::vector<std::string> nearest = nearest_options(key);
  std::string hint;
  for (const std::string& name : nearest) hint += str(hint.empty() ? "; nearest: " : ", ", name);
  const std::string shown(key.substr(0, 200));
  throw Error(Code::kUnknownOption, str("there is no option \"", shown, "\"", hint))
      .with_key(shown)
      .with_nearest(std::move(nearest));
}

std::vector<std::string> nearest_options(std::string_view key) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < option_count(); ++i) keys.emplace_back(option_at(i).key);
  return nearest_names(key, std::move(keys));
}

std::vector<std::string> nearest_names(std::string_view wrong, std::vector<std::string> names) {
  constexpr size_t kLongest = 200;
  constexpr size_t kMost = 3;
  if (wrong.size() > kLongest) return {};
  std::vector<std::tuple<size_t, size_t, std::string>>
      found;  // ties are broken by overall similarity
  for (std::string& name : names) {
    const size_t distance = nearness(wrong, name);
    if (distance == kFar) continue;
    const size_t whole = edit_distance(wrong, name);
    found.emplace_back(distance, whole, std::move(name));
  }
  std::sort(found.begin(), found.end());
  if (found.size() > kMost) found.resize(kMost);
  std::vector<std::string> nearest;
  for (auto& [distance, whole, name] : found) nearest.push_back(std::move(name));
  return nearest;
}

const char* option_type_name(OptionType type) {
  switch (type) {
    case OptionType::kBool:
      return "bool (true, false)";
    case OptionType::kI64:
      return "integer";
    case OptionType::kU64:
      return "unsigned integer";
    case OptionType::kF64:
      return "number";
    case OptionType::kString:
      return "string";
    case OptionType::kEnum:
      return "choice";
    case OptionType::kDurationNs:
      return "duration";
    case OptionType::kBytes:
      return "size in bytes";
    case OptionType::kStringList:
      return "list of strings";
    case OptionType::kI64List:
      return "list of integers";
  }
  return "unknown type";
}

std::string option_expectation(const OptionInfo& info) {
  if (info.type != OptionType::kEnum) return str(option_type_name(info.type), range_text(info));
  std::string out = "one of ";
  for (size_t i = 0; i < info.num_choices; ++i) {
    out += str(i > 0 ? ", " : "", info.choices[i].name);
  }
  return out;
}

void require_changeable(const OptionInfo& info, OptionWhen moment) {
  if (info.when >= moment) return;
  const char* const allowed =
      info.when == OptionWhen::kCreate ? "is fixed at creation" : "changes between steps only";
  throw Error(Code::kNotChangeable, str(info.key, " ", allowed)).with_key(info.key);
}

}  // namespace rl
