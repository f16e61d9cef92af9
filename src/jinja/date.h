// Dates for strftime_now(): formats a date given as text with strftime directives, in English.
#pragma once
#include <string>
#include <string_view>

namespace rl::jinja {

// now is "YYYY-MM-DD", optionally followed by "THH:MM:SS". Anything else is
// Error(kInvalidArgument), an unknown directive Error(kUnsupported).
std::string format_date(std::string_view now, std::string_view format);

}  // namespace rl::jinja
