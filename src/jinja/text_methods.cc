// Python prints the shortest digits that parse back to the same float, in scientific form outside
// 1e-4 .. 1e16; std::to_chars finds the same digits.
#include "jinja/text_methods.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/encoding/unicode.h"

namespace rl::jinja {
namespace {

using Origin = MarkedText::Origin;

// Calls each(code point, offset, length) for well-formed text.
template <typename Each>
void for_code_points(std::string_view bytes, Each&& each) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = std::max<size_t>(utf8_sequence_length(bytes, at), 1);
    each(decode_utf8(bytes, at, length), at, length);
    at += length;
  }
}

// Code points whose upper, lower or title case is not a single code point known to utf8proc.
bool has_special_case(char32_t c) {
  return c == 0xdf || c == 0x130 || c == 0x149 || c == 0x1f0 || c == 0x390 || c == 0x3a3 ||
         c == 0x3b0 || c == 0x587 || (c >= 0x1e96 && c <= 0x1e9a) || (c >= 0x1f50 && c <= 0x1f56) ||
         (c >= 0x1f80 && c <= 0x1ffc) || (c >= 0xfb00 && c <= 0xfb17);
}

char32_t cased(char32_t c, Case to, bool first) {
  if (c >= 0x80 && has_special_case(c)) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    std::string name;
    for (int shift = 12; shift >= 0; shift -= 4) name += kHex[(c >> shift) & 15];
    throw Error(Code::kUnsupported, str("upper and lower case of U+", name, " are not supported"));
  }
  const auto code = static_cast<utf8proc_int32_t>(c);
  if (to == Case::kUpper) return static_cast<char32_t>(utf8proc_toupper(code));
  if (to == Case::kLower || !first) return static_cast<char32_t>(utf8proc_tolower(code));
  return static_cast<char32_t>(utf8proc_totitle(code));
}

void append_float(std::string& out, double v) {
  if (std::isnan(v)) {
    out += "nan";
    return;
  }
  if (std::isinf(v)) {
    out += v < 0 ? "-inf" : "inf";
    return;
  }
  char buffer[40];
  const double size = std::fabs(v);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), v, format).ptr;
  const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
  out += digits;
  if (!scientific && digits.find('.') == digits.npos) out += ".0";
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_hex(std::string& out, uint32_t value, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kDigits[(value >> shift) & 15];
}

// Writes data as text. Everything outside texts is marked as the template's own.
class Writer {
 public:
  explicit Writer(JinjaBudget& budget) : budget_(budget) {}
  MarkedText take() { return std::move(out_); }

  void put(std::string_view bytes, Origin origin = Origin::kTemplate) {
    budget_.spend_text(out_.size() + bytes.size(), bytes.size() + 4);
    out_.append(bytes, origin);
  }
  void put_number(const Value& value, bool json) {
    std::string digits;
    if (const bool* b = value.as<bool>()) {
      digits = json ? (*b ? "true" : "false") : (*b ? "True" : "False");
    } else if (value.is_integer()) {
      digits = str(value.to_integer());
    } else {
      append_float(digits, value.to_real());
      if (json && std::isnan(value.to_real())) digits = "NaN";
      if (json && std::isinf(value.to_real()))
        digits = value.to_real() < 0 ? "-Infinity" : "Infinity";
    }
    put(digits);
  }
  // escape(code point, std::string& out) appends the escaped form, or nothing to keep the bytes.
  template <typename Escape>
  void put_quoted(const MarkedText& text, char quote, Escape&& escape) {
    put({&quote, 1});
    budget_.spend_text(out_.size() + text.size(), text.size());
    std::string piece;
    for_code_points(text.bytes(), [&](char32_t c, size_t at, size_t length) {
      piece.clear();
      escape(c, piece);
      if (piece.empty()) {
        out_.append(text, at, length);
      } else {
        put(piece, text.origin(at));
      }
    });
    put({&quote, 1});
  }

 private:
  JinjaBudget& budget_;
  MarkedText out_;
};

void write_repr(const Value& value, Writer& out);

void write_repr_text(const MarkedText& text, Writer& out) {
  const bool single = text.bytes().find('\'') == std::string::npos;
  const char quote = single || text.bytes().find('"') != std::string::npos ? '\'' : '"';
  out.put_quoted(text, quote, [&](char32_t c, std::string& piece) {
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      piece = {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      piece = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (!is_printable(c)) {
      piece = c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      append_hex(piece, c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
    }
  });
}

void write_repr_list(const List& list, Writer& out) {
  out.put(list.is_tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.put(", ");
    write_repr(list.items[i], out);
  }
  if (list.is_tuple && list.items.size() == 1) out.put(",");
  out.put(list.is_tuple ? ")" : "]");
}

void write_repr(const Value& value, Writer& out) {
  if (value.is_number()) return out.put_number(value, false);
  if (value.is_none()) return out.put("None");
  if (value.is_undefined()) return out.put("Undefined");
  if (const MarkedText* text = value.as_text()) return write_repr_text(*text, out);
  if (const List* list = value.as_list()) return write_repr_list(*list, out);
  const Dict* dict = value.as_dict();
  if (dict == nullptr) fail_type("cannot print", value);
  out.put("{");
  for (size_t i = 0; i < dict->entries.size(); ++i) {
    if (i > 0) out.put(", ");
    write_repr(dict->entries[i].first, out);
    out.put(": ");
    write_repr(dict->entries[i].second, out);
  }
  out.put("}");
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, JinjaBudget& budget) : style_(style), out_(budget) {}
  MarkedText take() { return out_.take(); }

  void write(const Value& value) {
    if (value.is_number()) return out_.put_number(value, true);
    if (value.is_none()) return out_.put("null");
    if (const MarkedText* text = value.as_text()) return write_text(*text);
    if (const List* list = value.as_list()) {
      return write_members('[', list->items.size(), ']', [&](size_t i) { write(list->items[i]); });
    }
    if (const Dict* dict = value.as_dict()) return write_dict(*dict);
    if (value.is_undefined()) {
      throw Error(Code::kInvalidArgument,
                  str("JSON cannot represent a missing value: ", *value.as<Undefined>()->reason));
    }
    fail_type("JSON cannot represent", value);
  }

 private:
  void write_text(const MarkedText& text) {
    out_.put_quoted(text, '"', [&](char32_t c, std::string& piece) {
      switch (c) {
        case '"':
          piece = "\\\"";
          return;
        case '\\':
          piece = "\\\\";
          return;
        case '\n':
          piece = "\\n";
          return;
        case '\r':
          piece = "\\r";
          return;
        case '\t':
          piece = "\\t";
          return;
        case '\f':
          piece = "\\f";
          return;
        case '\b':
          piece = "\\b";
          return;
        default:
          break;
      }
      if (c >= 0x20 && (c < 0x7f || !style_.ensure_ascii)) return;
      if (c < 0x10000) {
        piece = "\\u";
        return append_hex(piece, c, 4);
      }
      piece = "\\u";
      append_hex(piece, 0xd800 + ((c - 0x10000) >> 10), 4);
      piece += "\\u";
      append_hex(piece, 0xdc00 + ((c - 0x10000) & 0x3ff), 4);
    });
  }
  void write_dict(const Dict& dict) {
    std::vector<size_t> order(dict.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](size_t i) -> const MarkedText& {
      return *dict.entries[i].first.as_text();
    };
    if (style_.sort_keys) {
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return key(a).bytes() < key(b).bytes(); });
    }
    write_members('{', order.size(), '}', [&](size_t i) {
      write_text(key(order[i]));
      out_.put(style_.key_separator);
      write(dict.entries[order[i]].second);
    });
  }
  template <typename Member>
  void write_members(char open, size_t count, char close, Member&& member) {
    out_.put({&open, 1});
    ++level_;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_.put(style_.item_separator);
      new_line();
      member(i);
    }
    --level_;
    if (count > 0) new_line();
    out_.put({&close, 1});
  }
  void new_line() {
    if (!style_.indent) return;
    out_.put("\n");
    for (int i = 0; i < level_; ++i) out_.put(*style_.indent);
  }

  const JsonStyle& style_;
  Writer out_;
  int level_ = 0;
};

}  // namespace

bool is_space(char32_t c) {
  if (c >= 0x1c && c <= 0x1f) return true;
  const CharClass cls = classify(c);
  return cls == CharClass::kSpace || cls == CharClass::kNewline;
}

int64_t num_code_points(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

std::vector<uint32_t> code_point_offsets(std::string_view bytes, JinjaBudget& budget) {
  budget.spend_text(bytes.size(), bytes.size());
  std::vector<uint32_t> out;
  for_code_points(bytes,
                  [&](char32_t, size_t at, size_t) { out.push_back(static_cast<uint32_t>(at)); });
  out.push_back(static_cast<uint32_t>(bytes.size()));
  return out;
}

MarkedText strip(const MarkedText& text, Sides sides, std::optional<std::string_view> characters) {
  const std::string& bytes = text.bytes();
  const auto goes = [&](size_t at, size_t length) {
    if (!characters) return is_space(decode_utf8(bytes, at, length));
    return characters->find(std::string_view(bytes).substr(at, length)) != std::string_view::npos;
  };
  size_t begin = 0, end = bytes.size();
  while (sides != Sides::kRight && begin < end) {
    const size_t length = std::max<size_t>(utf8_sequence_length(bytes, begin), 1);
    if (!goes(begin, length)) break;
    begin += length;
  }
  while (sides != Sides::kLeft && end > begin) {
    size_t at = end - 1;
    while (at > begin && (bytes[at] & 0xc0) == 0x80) --at;
    if (!goes(at, end - at)) break;
    end = at;
  }
  return text.substr(begin, end - begin);
}

MarkedText change_case(const MarkedText& text, Case to, JinjaBudget& budget) {
  budget.spend_text(text.size(), text.size());
  MarkedText out;
  bool first = true;
  std::string piece;
  for_code_points(text.bytes(), [&](char32_t c, size_t at, size_t) {
    piece.clear();
    append_utf8(piece, cased(c, to, first));
    out.append(piece, text.origin(at));
    if (to == Case::kTitleWords) {
      first = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    } else if (to == Case::kTitle) {
      const auto code = static_cast<utf8proc_int32_t>(c);
      first = utf8proc_toupper(code) == code && utf8proc_tolower(code) == code;
    } else {
      first = false;
    }
  });
  return out;
}

MarkedText replace(const MarkedText& text, const MarkedText& old, const MarkedText& with,
                   int64_t count, JinjaBudget& budget) {
  if (old.empty()) throw Error(Code::kUnsupported, "replacing an empty string is not supported");
  MarkedText out;
  const std::string& bytes = text.bytes();
  size_t at = 0;
  for (; count != 0; --count) {
    const size_t found = bytes.find(old.bytes(), at);
    if (found == std::string::npos) break;
    const size_t added = found - at + with.size();
    budget.spend_text(out.size() + added, added + 4);
    out.append(text, at, found - at);
    out.append(with);
    at = found + old.size();
  }
  budget.spend_text(out.size() + bytes.size() - at, bytes.size() - at);
  out.append(text, at);
  return out;
}

std::vector<MarkedText> lines_of(const MarkedText& text, bool keep_ends, JinjaBudget& budget) {
  std::vector<MarkedText> lines;
  const std::string& bytes = text.bytes();
  budget.spend(bytes.size() / 4);
  size_t begin = 0, skip_to = 0;
  for_code_points(bytes, [&](char32_t c, size_t at, size_t length) {
    const bool ends = (c >= 0xa && c <= 0xd) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends || at < skip_to) return;
    size_t next = at + length;
    if (c == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
    budget.spend_items(1);
    lines.push_back(text.substr(begin, (keep_ends ? next : at) - begin));
    begin = skip_to = next;
  });
  if (begin < bytes.size()) lines.push_back(text.substr(begin));
  return lines;
}

MarkedText to_text(const Value& value, JinjaBudget& budget) {
  if (const MarkedText* text = value.as_text()) return *text;
  if (value.is_undefined()) return {};
  Writer out(budget);
  write_repr(value, out);
  return out.take();
}

MarkedText to_json_text(const Value& value, const JsonStyle& style, JinjaBudget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace rl::jinja
