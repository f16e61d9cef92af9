// Properties come from utf8proc. ASCII is classified without a table look-up because most text is
// ASCII. NFC sorts combining marks itself: utf8proc_map sorts them by adjacent swaps, which is
// quadratic in a long run of marks.
#include "core/encoding/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "core/checked.h"
#include "core/error.h"

namespace rl {
namespace {

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Symbols with the property Other_Alphabetic: circled and squared Latin letters.
bool is_alphabetic_symbol(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Full canonical decomposition, marks in canonical order.
std::vector<utf8proc_int32_t> decompose(std::string_view utf8) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(utf8.size() + 1);
  for (size_t at = 0; at < utf8.size();) {
    const size_t length = utf8_sequence_length(utf8, at);
    RL_CHECK(length > 0);
    utf8proc_int32_t parts[8];
    int last_boundary = 0;
    const auto count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(decode_utf8(utf8, at, length)), parts, 8,
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE), &last_boundary);
    RL_CHECK(count >= 1 && count <= 8);
    out.insert(out.end(), parts, parts + count);
    at += length;
  }
  for (size_t i = 0; i < out.size();) {
    size_t end = i;
    while (end < out.size() && combining_class(out[end]) != 0) ++end;
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(i),
                     out.begin() + static_cast<std::ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = std::max(end, i + 1);
  }
  return out;
}

}  // namespace

char32_t decode_utf8(std::string_view text, size_t at, size_t length) {
  const auto bits = [&](size_t i, unsigned mask) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]) & mask);
  };
  switch (length) {
    case 1:
      return bits(0, 0x7f);
    case 2:
      return bits(0, 0x1f) << 6 | bits(1, 0x3f);
    case 3:
      return bits(0, 0x0f) << 12 | bits(1, 0x3f) << 6 | bits(2, 0x3f);
    default:
      return bits(0, 7) << 18 | bits(1, 0x3f) << 12 | bits(2, 0x3f) << 6 | bits(3, 0x3f);
  }
}

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

std::string replace_broken_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8_sequence_length(bytes, at);
    if (length > 0) {
      out.append(bytes.substr(at, length));
      at += length;
    } else {
      out.append("\xef\xbf\xbd");
      at += utf8_broken_length(bytes, at);
    }
  }
  return out;
}

std::string quote_text(std::string_view text) {
  constexpr size_t kMax = 80;
  size_t cut = std::min(text.size(), kMax);
  while (cut > 0 && cut < text.size() && (text[cut] & 0xc0) == 0x80) --cut;
  std::string out = str("\"", replace_broken_utf8(text.substr(0, cut)));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  out += cut < text.size() ? "...\"" : "\"";
  return out;
}

CharClass classify(char32_t c) {
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
    if (c >= '0' && c <= '9') return CharClass::kNumber;
    if (c == '\r' || c == '\n') return CharClass::kNewline;
    return is_white_space(c) ? CharClass::kSpace : CharClass::kOther;
  }
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) {
    return CharClass::kLetter;
  }
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) {
    return CharClass::kNumber;
  }
  return is_white_space(c) ? CharClass::kSpace : CharClass::kOther;
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200c || c == 0x200d || is_alphabetic_symbol(c);
  }
}

std::string to_nfc(std::string_view utf8) {
  const bool ascii = std::all_of(utf8.begin(), utf8.end(), [](char c) { return (c & 0x80) == 0; });
  if (ascii) return std::string(utf8);
  std::vector<utf8proc_int32_t> points = decompose(utf8);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto count = utf8proc_normalize_utf32(
      points.data(), Checked<utf8proc_ssize_t>(points.size()).get(), options);
  RL_CHECK(count >= 0);
  std::string out;
  out.reserve(utf8.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, static_cast<char32_t>(points[static_cast<size_t>(i)]));
  }
  return out;
}

}  // namespace rl
