// Text with Python's semantics: by code points, with Python's white space and case mapping; and
// conversion of data to text by str(), repr() and json.dumps(). Results carry the marks of their
// sources.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jinja/value.h"

namespace rl::jinja {

// str.isspace for one code point.
bool is_space(char32_t c);

int64_t num_code_points(std::string_view bytes);
// Byte offset of each code point, with the size as the last entry.
std::vector<uint32_t> code_point_offsets(std::string_view bytes, JinjaBudget& budget);

enum class Sides : uint8_t { kLeft, kRight, kBoth };
// Strips white space if no characters are given.
MarkedText strip(const MarkedText& text, Sides sides, std::optional<std::string_view> characters);

// kTitle is str.title; kTitleWords is the title filter, where words begin only after white space
// and opening brackets.
enum class Case : uint8_t { kUpper, kLower, kTitle, kTitleWords, kCapitalize };
// Error(kUnsupported) names a code point whose case depends on its neighbours or maps to several.
MarkedText change_case(const MarkedText& text, Case to, JinjaBudget& budget);

// Replaces at most count times, or all if count is negative. Error(kUnsupported) if old is empty.
MarkedText replace(const MarkedText& text, const MarkedText& old, const MarkedText& with,
                   int64_t count, JinjaBudget& budget);
// str.splitlines.
std::vector<MarkedText> lines_of(const MarkedText& text, bool keep_ends, JinjaBudget& budget);

// str(value): what a template prints.
MarkedText to_text(const Value& value, JinjaBudget& budget);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // per level; without it everything is on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
MarkedText to_json_text(const Value& value, const JsonStyle& style, JinjaBudget& budget);

}  // namespace rl::jinja
