// One pass by code point.
#include "report/html_text.h"

#include <cstdint>

#include "core/encoding/utf8.h"

namespace rl {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

const char* entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

void append_ascii(std::string& out, char c) {
  constexpr const char* kPicture = "\xE2\x90";  // UTF-8 of U+2400 to U+243F without the last byte
  const auto value = static_cast<uint8_t>(c);
  const bool control = (value < 0x20 && c != '\t' && c != '\n') || value == 0x7F;
  if (const char* const e = entity(c)) {
    out += e;
  } else if (control) {
    out += kPicture;
    out.push_back(static_cast<char>(0x80 | (value == 0x7F ? 0x21 : value)));
  } else {
    out.push_back(c);
  }
}

// U+0080 to U+009F are controls; XML has no U+FFFE and U+FFFF.
bool is_text(std::string_view sequence) {
  if (sequence.size() == 2 && sequence[0] == '\xC2') {
    return static_cast<uint8_t>(sequence[1]) >= 0xA0;
  }
  return sequence != "\xEF\xBF\xBE" && sequence != "\xEF\xBF\xBF";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence_length(text, at);
    if (length == 1) {
      append_ascii(out, text[at]);
    } else if (length > 1 && is_text(text.substr(at, length))) {
      out.append(text.substr(at, length));
    } else {
      out += kReplacement;
    }
    at += length == 0 ? utf8_broken_length(text, at) : length;
  }
  return out;
}

}  // namespace rl
