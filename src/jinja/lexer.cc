// Outside tags, searches for the next "{{", "{%" or "{#"; inside, reads tokens one by one until the
// tag's end, which counts only while no bracket is open.
#include "jinja/lexer.h"

#include <algorithm>

#include "core/encoding/unicode.h"
#include "jinja/text_methods.h"

namespace rl::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text()) {}

  std::vector<Token> run() {
    while (true) {
      const size_t tag = find_tag();
      if (tag == std::string_view::npos) break;
      if (text_[tag + 1] == '#') {
        comment(tag);
      } else if (text_[tag + 1] == '%' && raw_end(tag) != 0) {
        raw(tag);
      } else {
        this->tag(tag);
      }
    }
    data(text_.substr(at_), at_);
    push(TokenKind::kEnd, text_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what) const {
    source_.fail(Code::kDataLoss, static_cast<uint32_t>(at), what);
  }
  void push(TokenKind kind, size_t at, std::string text = {}) {
    tokens_.push_back({kind, static_cast<uint32_t>(at), std::move(text)});
  }
  void data(std::string_view text, size_t at) {
    if (!text.empty()) push(TokenKind::kData, at, std::string(text));
  }
  bool looking_at(size_t at, std::string_view what) const {
    return text_.substr(std::min(at, text_.size())).starts_with(what);
  }
  size_t find_tag() const {
    for (size_t at = text_.find('{', at_); at != text_.npos; at = text_.find('{', at + 1)) {
      if (at + 1 >= text_.size()) break;
      const char c = text_[at + 1];
      if (c == '{' || c == '%' || c == '#') return at;
    }
    return std::string_view::npos;
  }
  size_t skip_space(size_t at) const {
    while (at < text_.size()) {
      const size_t length = utf8_sequence_length(text_, at);
      if (!is_space(decode_utf8(text_, at, length))) break;
      at += length;
    }
    return at;
  }
  char sign_at(size_t at) const {
    return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
  }

  // Emits the text from at_ to a tag, trimmed by the tag's sign and lstrip_blocks.
  void data_before(size_t tag, char sign, bool is_variable) {
    std::string_view text = text_.substr(at_, tag - at_);
    if (sign == '-') {
      text = text.substr(0, strip_right(text));
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == text.npos ? 0 : newline + 1;
      if ((line > 0 || line_starts_) && strip_right(text) <= line) text = text.substr(0, line);
    }
    data(text, at_);
  }
  static size_t strip_right(std::string_view text) {
    size_t end = text.size();
    while (end > 0) {
      size_t at = end - 1;
      while (at > 0 && (text[at] & 0xc0) == 0x80) --at;
      if (!is_space(decode_utf8(text, at, end - at))) break;
      end = at;
    }
    return end;
  }
  // Continues after a tag that ended at `end`; sign is the character before its closing ones.
  void leave_tag(size_t end, char sign, bool trims_newline) {
    at_ = end;
    if (sign == '-') {
      at_ = skip_space(end);
    } else if (sign != '+' && trims_newline && looking_at(end, "\n")) {
      ++at_;
    }
    line_starts_ = at_ > end && text_[at_ - 1] == '\n';
  }

  void comment(size_t tag) {
    const char sign = sign_at(tag + 2);
    data_before(tag, sign, false);
    const size_t begin = tag + 2 + (sign != 0);
    const size_t end = text_.find("#}", begin);
    if (end == text_.npos) fail(tag, "unterminated comment: \"#}\" is missing");
    leave_tag(end + 2, end > begin ? sign_at(end - 1) : '\0', true);
  }

  // Offset after "{% raw %}" at tag, or 0 if another block is there. Sets sign to the one at its
  // end.
  size_t raw_end(size_t tag, char* sign = nullptr) const {
    size_t at = skip_space(tag + 2 + (sign_at(tag + 2) != 0));
    if (!looking_at(at, "raw")) return 0;
    at = skip_space(at + 3);
    const bool strips = looking_at(at, "-%}");
    if (!strips && !looking_at(at, "%}")) return 0;
    if (sign != nullptr) *sign = strips ? '-' : '\0';
    return at + (strips ? 3 : 2);
  }
  void raw(size_t tag) {
    char sign = '\0';
    data_before(tag, sign_at(tag + 2), false);
    const size_t begin = raw_end(tag, &sign);
    leave_tag(begin, sign, false);
    for (size_t at = text_.find("{%", at_); at != text_.npos; at = text_.find("{%", at + 1)) {
      size_t end = skip_space(at + 2 + (sign_at(at + 2) != 0));
      if (!looking_at(end, "endraw")) continue;
      end = skip_space(end + 6);
      const char closing = sign_at(end);
      end += closing != 0;
      if (!looking_at(end, "%}")) continue;
      data_before(at, sign_at(at + 2), false);
      return leave_tag(end + 2, closing, true);
    }
    fail(tag, "unterminated raw block: \"{% endraw %}\" is missing");
  }

  void tag(size_t tag) {
    const bool is_variable = text_[tag + 1] == '{';
    const char sign = sign_at(tag + 2);
    data_before(tag, sign, is_variable);
    push(is_variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, tag);
    at_ = tag + 2 + (sign != 0);
    while (true) {
      at_ = skip_space(at_);
      if (at_ >= text_.size()) fail(tag, "unterminated tag");
      if (brackets_.empty() && at_tag_end(is_variable)) return;
      token();
    }
  }
  bool at_tag_end(bool is_variable) {
    const char sign = sign_at(at_);
    if (is_variable && sign == '+') return false;
    const size_t closing = at_ + (sign != 0);
    if (!looking_at(closing, is_variable ? "}}" : "%}")) return false;
    push(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, at_);
    leave_tag(closing + 2, sign, !is_variable);
    return true;
  }

  void token() {
    const char c = text_[at_];
    if (is_digit(c)) return number();
    if (is_name_start(c)) {
      size_t end = at_;
      while (end < text_.size() && is_name_part(text_[end])) ++end;
      return take(TokenKind::kName, end - at_);
    }
    if (c == '"' || c == '\'') return string();
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (looking_at(at_, two)) return take(TokenKind::kOperator, 2);
    }
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      fail(at_, str("unexpected character ",
                    quote_text(text_.substr(at_, utf8_sequence_length(text_, at_)))));
    }
    balance(c);
    take(TokenKind::kOperator, 1);
  }
  void take(TokenKind kind, size_t length) {
    push(kind, at_, std::string(text_.substr(at_, length)));
    at_ += length;
  }
  void balance(char c) {
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) fail(at_, str("unexpected \"", std::string(1, c), "\""));
    if (brackets_.back() != c) {
      fail(at_, str("expected \"", std::string(1, brackets_.back()), "\", found \"",
                    std::string(1, c), "\""));
    }
    brackets_.pop_back();
  }

  void number();
  void string();
  // Digits, possibly with single underscores in between; returns the offset after them.
  size_t digits(size_t at) const {
    while (at < text_.size() && is_digit(text_[at])) {
      ++at;
      if (looking_at(at, "_") && at + 1 < text_.size() && is_digit(text_[at + 1])) ++at;
    }
    return at;
  }
  char32_t hex(size_t at, size_t count) const;
  size_t escape(size_t at, std::string& out) const;

  const Source& source_;
  const std::string_view text_;
  size_t at_ = 0;
  bool line_starts_ = true;
  std::string brackets_;  // closing brackets still expected
  std::vector<Token> tokens_;
};

void Lexer::number() {
  if (text_[at_] == '0' && at_ + 1 < text_.size() && is_name_part(text_[at_ + 1]) &&
      !is_digit(text_[at_ + 1]) && text_[at_ + 1] != '_' && text_[at_ + 1] != 'e') {
    source_.fail(Code::kUnsupported, static_cast<uint32_t>(at_),
                 "numbers in a base other than 10 are not supported");
  }
  const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
  size_t end = digits(at_);
  bool is_float = false;
  if (!after_dot && looking_at(end, ".") && end + 1 < text_.size() && is_digit(text_[end + 1])) {
    end = digits(end + 1);
    is_float = true;
  }
  if (!after_dot && end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
    const size_t exponent = end + 1 + (sign_at(end + 1) != 0);
    if (exponent < text_.size() && is_digit(text_[exponent])) {
      end = digits(exponent);
      is_float = true;
    }
  }
  take(is_float ? TokenKind::kFloat : TokenKind::kInteger, end - at_);
  std::erase(tokens_.back().text, '_');
}

void Lexer::string() {
  const size_t begin = at_;
  std::string value;
  for (size_t at = at_ + 1; at < text_.size();) {
    if (text_[at] == text_[begin]) {
      push(TokenKind::kString, begin, std::move(value));
      at_ = at + 1;
      return;
    }
    if (text_[at] == '\\') {
      at = escape(at, value);
    } else {
      value += text_[at++];
    }
  }
  fail(begin, "unterminated string");
}

char32_t Lexer::hex(size_t at, size_t count) const {
  char32_t value = 0;
  for (size_t i = at; i < at + count; ++i) {
    const char c = i < text_.size() ? text_[i] : '\0';
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail(at, str("an escape sequence needs ", count, " hexadecimal digits"));
    value = value * 16 + static_cast<char32_t>(digit);
  }
  if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
    fail(at, "an escape sequence is not a character");
  }
  return value;
}

// Python's escapes; an unknown one is kept as written.
size_t Lexer::escape(size_t at, std::string& out) const {
  if (at + 1 >= text_.size()) fail(at, "unterminated string");
  static constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
  const char c = text_[at + 1];
  if (const size_t i = kNames.find(c); i != kNames.npos) {
    out += kValues[i];
    return at + 2;
  }
  if (c == '\n') return at + 2;
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    append_utf8(out, hex(at + 2, count));
    return at + 2 + count;
  }
  if (c == 'N') {
    source_.fail(Code::kUnsupported, static_cast<uint32_t>(at),
                 "named escape sequences, \\N, are not supported");
  }
  if (c < '0' || c > '7') {
    out += '\\';
    return at + 1;
  }
  char32_t value = 0;
  size_t end = at + 1;
  for (; end < at + 4 && end < text_.size() && text_[end] >= '0' && text_[end] <= '7'; ++end) {
    value = value * 8 + static_cast<char32_t>(text_[end] - '0');
  }
  append_utf8(out, value);
  return end;
}

}  // namespace

Source::Source(std::string_view text, std::string name, const JinjaLimits& limits)
    : name_(std::move(name)) {
  if (text.size() > limits.max_template_bytes) {
    throw Error(Code::kResourceExhausted,
                str(name_, ": a template of ", text.size(), " bytes exceeds the limit of ",
                    limits.max_template_bytes))
        .with_location(name_);
  }
  if (const auto broken = find_broken_utf8(text)) {
    const std::string where = str(name_, " byte ", *broken);
    throw Error(Code::kDataLoss, str(where, ": the template is not UTF-8")).with_location(where);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      text_ += text[i];
    } else {
      text_ += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  if (text_.ends_with('\n')) text_.pop_back();
}

std::string Source::location(uint32_t at) const {
  const std::string_view before = std::string_view(text_).substr(0, at);
  const size_t newline = before.rfind('\n');
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::string_view in_line = newline == before.npos ? before : before.substr(newline + 1);
  return str(name_, ":", line, ":", num_code_points(in_line) + 1);
}

void Source::fail(Code code, uint32_t at, const std::string& what) const {
  const std::string where = location(at);
  throw Error(code, str(where, ": ", what)).with_location(where);
}

std::vector<Token> tokenize(const Source& source) { return Lexer(source).run(); }

}  // namespace rl::jinja
