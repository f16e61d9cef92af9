// Printable Latin-1 bytes map to themselves; the others, in order, to code points from U+0100 on.
#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "core/encoding/unicode.h"

namespace rl {
namespace {

constexpr char32_t kFirstShifted = 0x100;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<char32_t, 256> point_of_byte{};
  std::array<int16_t, 0x200> byte_of_point{};

  constexpr Alphabet() {
    for (auto& byte : byte_of_point) byte = -1;
    char32_t shifted = kFirstShifted;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t point = stands_for_itself(byte) ? byte : shifted++;
      point_of_byte[byte] = point;
      byte_of_point[point] = static_cast<int16_t>(byte);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    append_utf8(out, kAlphabet.point_of_byte[static_cast<unsigned char>(c)]);
  }
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence_length(text, at);
    if (length == 0) return std::nullopt;
    const char32_t point = decode_utf8(text, at, length);
    if (point >= kAlphabet.byte_of_point.size()) return std::nullopt;
    const int16_t byte = kAlphabet.byte_of_point[point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    at += length;
  }
  return out;
}

}  // namespace rl
