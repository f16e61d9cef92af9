// Tokens are sorted by text. A search narrows the range that shares a prefix with the input, byte
// by byte; the first entry of a range is the token that equals the prefix, if there is one.
#include "text/added_tokens.h"

#include <algorithm>

#include "core/encoding/unicode.h"

namespace rl {
namespace {

// Start of the character that ends at text[end - 1].
size_t character_begin(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (text[begin] & 0xc0) == 0x80) --begin;
  return begin;
}

char32_t character_at(std::string_view text, size_t at) {
  const size_t length = utf8_sequence_length(text, at);
  return length == 0 ? U'\xfffd' : decode_utf8(text, at, length);
}

bool is_white(char32_t c) {
  const CharClass cls = classify(c);
  return cls == CharClass::kSpace || cls == CharClass::kNewline;
}

unsigned char byte_of(const AddedToken& token, size_t i) {
  return static_cast<unsigned char>(token.text[i]);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.text < b.text; });
  for (const AddedToken& token : tokens_) ++first_of_byte_[byte_of(token, 0) + 1u];
  for (size_t i = 1; i < first_of_byte_.size(); ++i) first_of_byte_[i] += first_of_byte_[i - 1];
}

const AddedToken* AddedTokenMatcher::find(std::string_view text, size_t at) const {
  const auto first_byte = static_cast<unsigned char>(text[at]);
  auto low = tokens_.begin() + first_of_byte_[first_byte];
  auto high = tokens_.begin() + first_of_byte_[first_byte + 1u];
  const AddedToken* longest = nullptr;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->text.size() == depth) longest = &*low++;
    if (low == high || at + depth >= text.size()) break;
    const auto wanted = static_cast<unsigned char>(text[at + depth]);
    low = std::partition_point(
        low, high, [&](const AddedToken& token) { return byte_of(token, depth) < wanted; });
    high = std::partition_point(
        low, high, [&](const AddedToken& token) { return byte_of(token, depth) == wanted; });
  }
  return longest;
}

AddedTokenMatcher::Span AddedTokenMatcher::extent(const AddedToken& token, std::string_view text,
                                                  size_t at, size_t done) {
  Span span{at, at + token.text.size()};
  while (token.lstrip && span.begin > done) {
    const size_t begin = character_begin(text, span.begin);
    if (!is_white(character_at(text, begin))) break;
    span.begin = begin;
  }
  while (token.rstrip && span.end < text.size()) {
    if (!is_white(character_at(text, span.end))) break;
    span.end += utf8_sequence_length(text, span.end);
  }
  return span;
}

bool AddedTokenMatcher::stands_alone(const AddedToken& token, std::string_view text, size_t at) {
  if (!token.single_word) return true;
  const size_t end = at + token.text.size();
  if (at > 0 && is_word_character(character_at(text, character_begin(text, at)))) return false;
  return end >= text.size() || !is_word_character(character_at(text, end));
}

}  // namespace rl
