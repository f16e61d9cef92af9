// JSON from outside, read strictly: UTF-8 without a byte order mark, one value, nothing after it,
// no duplicate key in an object, at most kMaxJsonDepth nested containers, no number that overflows.
// Errors are Error(kDataLoss) or Error(kResourceExhausted) whose location is "name:line:column".
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rl {

inline constexpr int kMaxJsonDepth = 64;

// Parses text; source_name is its name in errors. Texts above max_bytes are refused unread.
nlohmann::json parse_strict_json(std::string_view text, const std::string& source_name,
                                 uint64_t max_bytes);
// The same, but object members keep the order of the text. Here an integer that does not fit in 64
// bits is refused, not rounded to a float.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& source_name,
                                          uint64_t max_bytes);

}  // namespace rl
