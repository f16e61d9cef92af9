// Option sets as JSON documents: {"library_version": "0.1.0", "options": {KEY: VALUE, ...}}. Bools
// and numbers are JSON's own, durations are nanoseconds and sizes bytes, enums are strings, lists
// are arrays. Writing is canonical; numbers read back to the same bits. Reading is strict (UTF-8,
// no duplicate, nothing unknown) and applies all values or none.
#pragma once
#include <string>
#include <string_view>

#include "options/options.h"

namespace rl {

// All options, or only those that differ from their default; ends with a newline.
std::string options_to_json(const OptionSet& set, bool only_changed,
                            std::string_view library_version);
// Returns base with the document's values. library_version may be absent. Errors: kDataLoss located
// as "byte N" if the text is not JSON, kResourceExhausted beyond the limits of option_import.h, and
// every violation of the values, located by its JSON pointer.
OptionSet options_from_json(std::string_view document, const OptionSet& base);

}  // namespace rl
