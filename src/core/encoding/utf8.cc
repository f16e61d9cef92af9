// Ranges from table 3-7 of the Unicode standard.
#include "core/encoding/utf8.h"

namespace rl {
namespace {

bool in(unsigned char byte, unsigned char low, unsigned char high) {
  return byte >= low && byte <= high;
}

// The second byte's range depends on the first: no overlong forms, no surrogates, nothing above
// U+10FFFF.
bool second_byte_fits(unsigned char first, unsigned char second) {
  if (first == 0xe0) return in(second, 0xa0, 0xbf);
  if (first == 0xed) return in(second, 0x80, 0x9f);
  if (first == 0xf0) return in(second, 0x90, 0xbf);
  if (first == 0xf4) return in(second, 0x80, 0x8f);
  return in(second, 0x80, 0xbf);
}

size_t length_by_first_byte(unsigned char first) {
  if (first < 0x80) return 1;
  if (in(first, 0xc2, 0xdf)) return 2;
  if (in(first, 0xe0, 0xef)) return 3;
  if (in(first, 0xf0, 0xf4)) return 4;
  return 0;
}

}  // namespace

size_t utf8_broken_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t want = length_by_first_byte(byte(at));
  if (want < 2 || at + 1 >= text.size() || !second_byte_fits(byte(at), byte(at + 1))) return 1;
  size_t length = 2;
  while (length < want && at + length < text.size() && in(byte(at + length), 0x80, 0xbf)) ++length;
  return length;
}

size_t utf8_sequence_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const size_t want = length_by_first_byte(static_cast<unsigned char>(text[at]));
  if (want < 2) return want;
  return at + want <= text.size() && utf8_broken_length(text, at) == want ? want : 0;
}

std::optional<size_t> find_broken_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace rl
