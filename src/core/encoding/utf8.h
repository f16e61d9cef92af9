// Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF. Pure, linear, safe on
// any bytes.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace rl {

// Length of the well-formed sequence that starts at text[at] (1..4), or 0 when there is none.
size_t utf8_sequence_length(std::string_view text, size_t at);

// Offset of the first byte that is not part of well-formed UTF-8.
std::optional<size_t> find_broken_utf8(std::string_view text);

// Bytes from text[at] that form a prefix of some well-formed sequence, at least one.
size_t utf8_broken_length(std::string_view text, size_t at);

}  // namespace rl
