// Dates for strftime_now(): a date given as text, written in a format of strftime in English.
#pragma once
#include <string>
#include <string_view>

namespace rl::jinja {

// now is "YYYY-MM-DD", or that with "THH:MM:SS" behind. Anything else is Error(kInvalidArgument),
// an unknown directive Error(kUnsupported).
std::string format_date(std::string_view now, std::string_view format);

}  // namespace rl::jinja
