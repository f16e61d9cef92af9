// Text forms and checks of single option values. parse, check and format share one grammar, so
// format(parse(x)) is canonical and parse(format(v)) is v.
#pragma once
#include <string>
#include <string_view>

#include "options/options.h"

namespace rl {

// Parses text as a value of the option's type, without range check; kWrongType on failure.
OptionValue parse_option(const OptionInfo& info, std::string_view text);
// Checks range, choices, powers of two, build support. Errors name key, value seen and what is
// expected.
void check_option(const OptionInfo& info, const OptionValue& value);
std::string format_option(const OptionValue& value);

// The generated table.
struct OptionTable {
  const OptionInfo* rows;
  size_t count;
};
OptionTable option_table();

}  // namespace rl
