// Option sets as FlatBuffers documents (abi/schemas/options.fbs). Writing is canonical: the same
// set and version give the same bytes. Reading first verifies the bytes, with bounded depth and
// count, and applies all values or none.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "options/options.h"

namespace rl {

// All options, or only those that differ from their default.
std::string options_to_flatbuffer(const OptionSet& set, bool only_changed,
                                  std::string_view library_version);
// Returns base with the document's values. Errors: kDataLoss if the bytes are no such document,
// kIncompatible for a later format, kResourceExhausted beyond the limits of option_import.h, and
// every violation of the values, located as options[INDEX].
OptionSet options_from_flatbuffer(std::span<const std::byte> document, const OptionSet& base);

}  // namespace rl
