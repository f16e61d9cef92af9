// The byte-level alphabet: each of the 256 bytes is written as one printable code point, so that a
// vocabulary of byte strings can be stored as text. Spelling is a bijection between byte strings
// and texts over the alphabet.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace rl {

// The text that spells bytes.
std::string spell_bytes(std::string_view bytes);

// The bytes that text spells; nullopt if a character is outside the alphabet.
std::optional<std::string> unspell_bytes(std::string_view text);

}  // namespace rl
