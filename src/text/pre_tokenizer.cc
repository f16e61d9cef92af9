// Each pattern is an ordered list of alternatives; piece_end tries them in the order of the regular
// expression. A piece is scanned at most three times, so the total time is linear.
#include "text/pre_tokenizer.h"

#include <array>

#include "core/encoding/unicode.h"

namespace rl {
namespace {

struct Char {
  CharClass cls;
  size_t end;  // offset after the character; equals the start at the end of the text
};

// Reads one character at a time; over() tells the end of the text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool over(size_t at) const { return at >= text_.size(); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  std::string_view from(size_t at) const { return text_.substr(at); }

  Char read(size_t at) const {
    const auto first = static_cast<unsigned char>(text_[at]);
    if (first < 0x80) return {classify(first), at + 1};
    const size_t length = utf8_sequence_length(text_, at);
    if (length == 0) return {CharClass::kOther, at + 1};
    return {classify(decode_utf8(text_, at, length)), at + length};
  }
  bool is(CharClass cls, size_t at) const { return !over(at) && read(at).cls == cls; }

  // End of the longest run of cls from `at`, at most max_count characters.
  size_t run(CharClass cls, size_t at, size_t max_count = SIZE_MAX) const {
    for (size_t count = 0; count < max_count && !over(at); ++count) {
      const Char c = read(at);
      if (c.cls != cls) break;
      at = c.end;
    }
    return at;
  }

 private:
  std::string_view text_;
};

bool is_space(CharClass cls) { return cls == CharClass::kSpace || cls == CharClass::kNewline; }

struct SpaceRun {
  size_t end;
  size_t last_begin;     // start of the last character of the run
  size_t after_newline;  // offset after the last newline of the run, or its start if it has none
  bool to_end_of_text;
};

// The run of white space at `at`; its first character is white space.
SpaceRun space_run(const Reader& reader, size_t at) {
  SpaceRun run{at, at, at, true};
  while (!reader.over(run.end)) {
    const Char c = reader.read(run.end);
    if (!is_space(c.cls)) {
      run.to_end_of_text = false;
      break;
    }
    run.last_begin = run.end;
    run.end = c.end;
    if (c.cls == CharClass::kNewline) run.after_newline = c.end;
  }
  return run;
}

// `\s+(?!\S)|\s+`: the run without its last character, which belongs to the following word.
size_t space_end(const SpaceRun& run, size_t at) {
  return run.to_end_of_text || run.last_begin == at ? run.end : run.last_begin;
}

// Length of 's 't 're 've 'm 'll 'd at the start of text, 0 if there is none. any_case uses Unicode
// folding, where U+017F (long s) is an s.
size_t contraction_length(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto letter = [&](size_t i) {
    if (i >= text.size()) return '\0';
    const char c = text[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && letter(2) == 'e') return 3;
  if (first == 'l' && letter(2) == 'l') return 3;
  return any_case && text.substr(1).starts_with("\xc5\xbf") ? 3 : 0;
}

class Gpt2Splitter : public Splitter {
 public:
  size_t piece_end(std::string_view text, size_t at) const override {
    const Reader reader(text);
    if (const size_t length = contraction_length(text.substr(at), false)) return at + length;
    const Char first = reader.read(at);
    if (!is_space(first.cls)) return reader.run(first.cls, first.end);
    if (reader.byte(at) == ' ' && !reader.over(first.end)) {
      const Char second = reader.read(first.end);
      if (!is_space(second.cls)) return reader.run(second.cls, second.end);
    }
    return space_end(space_run(reader, at), at);
  }
};

// The pattern of Llama 3 and Qwen 2; they differ in the number of digits per group.
class TiktokenSplitter : public Splitter {
 public:
  explicit TiktokenSplitter(size_t max_digits) : max_digits_(max_digits) {}

  size_t piece_end(std::string_view text, size_t at) const override {
    const Reader reader(text);
    if (const size_t length = contraction_length(text.substr(at), true)) return at + length;
    const Char first = reader.read(at);
    if (first.cls == CharClass::kLetter) return reader.run(CharClass::kLetter, first.end);
    if (first.cls == CharClass::kNumber) return reader.run(CharClass::kNumber, at, max_digits_);
    if (first.cls != CharClass::kNewline && reader.is(CharClass::kLetter, first.end)) {
      return reader.run(CharClass::kLetter, first.end);
    }
    if (first.cls == CharClass::kOther) return others_end(reader, first.end);
    if (reader.byte(at) == ' ' && reader.is(CharClass::kOther, first.end)) {
      return others_end(reader, first.end);
    }
    const SpaceRun run = space_run(reader, at);
    return run.after_newline > at ? run.after_newline : space_end(run, at);
  }

 private:
  static size_t others_end(const Reader& reader, size_t at) {
    return reader.run(CharClass::kNewline, reader.run(CharClass::kOther, at));
  }
  size_t max_digits_;
};

class DigitsSplitter : public Splitter {
 public:
  explicit DigitsSplitter(bool individual) : individual_(individual) {}

  size_t piece_end(std::string_view text, size_t at) const override {
    const Reader reader(text);
    const Char first = reader.read(at);
    if (first.cls == CharClass::kNumber) {
      return individual_ ? first.end : reader.run(CharClass::kNumber, first.end);
    }
    size_t end = first.end;
    while (!reader.over(end)) {
      const Char c = reader.read(end);
      if (c.cls == CharClass::kNumber) break;
      end = c.end;
    }
    return end;
  }

 private:
  bool individual_;
};

constexpr std::array<std::string_view, 3> kRegexes = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

}  // namespace

std::shared_ptr<const Splitter> known_pattern_splitter(KnownPattern pattern) {
  switch (pattern) {
    case KnownPattern::kLlama3:
      return std::make_shared<TiktokenSplitter>(3);
    case KnownPattern::kQwen2:
      return std::make_shared<TiktokenSplitter>(1);
    default:
      return std::make_shared<Gpt2Splitter>();
  }
}

std::string_view regex_of(KnownPattern pattern) { return kRegexes[static_cast<size_t>(pattern)]; }

std::optional<KnownPattern> find_known_pattern(std::string_view regex) {
  for (size_t i = 0; i < kRegexes.size(); ++i) {
    if (kRegexes[i] == regex) return static_cast<KnownPattern>(i);
  }
  return std::nullopt;
}

std::shared_ptr<const Splitter> digits_splitter(bool individual) {
  return std::make_shared<DigitsSplitter>(individual);
}

}  // namespace rl
