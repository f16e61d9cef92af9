// UTF-8 and Unicode properties as the tokenizers need them: decoding and validation, replacement of
// broken bytes by U+FFFD, the character classes of the pre-tokenizer patterns, and NFC. All
// functions are pure, take linear time (NFC: n log n) and are safe on any bytes unless they say
// otherwise.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/encoding/utf8.h"

namespace rl {

// Code point of the well-formed sequence of `length` bytes at text[at].
char32_t decode_utf8(std::string_view text, size_t at, size_t length);

void append_utf8(std::string& out, char32_t code_point);

// Every maximal broken part becomes one U+FFFD, as the Unicode standard recommends (and Rust's
// from_utf8_lossy does).
std::string replace_broken_utf8(std::string_view bytes);

// External text made safe for an error message: broken bytes replaced, control characters as '?',
// shortened to about 80 bytes, in double quotes.
std::string quote_text(std::string_view text);

// Character classes of the pre-tokenizer patterns.
enum class CharClass : uint8_t {
  kLetter,   // \p{L}
  kNumber,   // \p{N}
  kNewline,  // [\r\n], also white space
  kSpace,    // the rest of \s (White_Space)
  kOther,
};
CharClass classify(char32_t code_point);

// \w of Unicode regular expressions: letters, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t code_point);

// Canonical composition (NFC) of well-formed UTF-8.
std::string to_nfc(std::string_view utf8);

}  // namespace rl
