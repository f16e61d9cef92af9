// Text names of enumerated algorithm choices and range checks of their parameters. Every enum of
// this folder has one table of (value, name); the names are the option values. A wrong name or
// value is an Error with the key, the expected values and the value seen; nothing is clamped.
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.h"

namespace rl {

template <typename E>
struct Choice {
  E value;
  std::string_view name;
};

template <typename E, size_t N>
constexpr std::string_view choice_name(const std::array<Choice<E>, N>& table, E value) {
  for (const auto& c : table) {
    if (c.value == value) return c.name;
  }
  return {};
}

template <typename E, size_t N>
E parse_choice(std::string_view key, const std::array<Choice<E>, N>& table, std::string_view text) {
  std::string expected = "one of";
  for (const auto& c : table) {
    if (c.name == text) return c.value;
    expected += expected.size() == 6 ? " " : ", ";
    expected += c.name;
  }
  throw Error(Code::kInvalidArgument, str(key, " is '", text, "', expected ", expected))
      .with_key(std::string(key))
      .with_expected(expected);
}

// Throws unless ok. Write ok as a comparison that must hold, so that NaN fails it.
inline void require_value(bool ok, std::string_view key, double value, std::string_view expected) {
  if (ok) return;
  throw Error(Code::kOutOfRange, str(key, " is ", value, ", expected ", expected))
      .with_key(std::string(key))
      .with_expected(std::string(expected));
}

inline void require_same_size(std::string_view what, size_t seen, size_t expected) {
  if (seen == expected) return;
  throw Error(Code::kInvalidArgument, str(what, " has ", seen, " elements, expected ", expected))
      .with_key(std::string(what));
}

}  // namespace rl
