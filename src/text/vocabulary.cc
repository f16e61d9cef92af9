// Texts and bytes lie in two arenas that are filled completely before any view into them is taken.
#include "text/vocabulary.h"

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "text/byte_level.h"

namespace rl {

Vocabulary::Vocabulary(const std::vector<TokenSpec>& tokens, const std::string& source) {
  if (tokens.empty()) throw Error(Code::kDataLoss, str(source, ": the vocabulary is empty"));
  if (tokens.size() > kMaxVocabulary) {
    throw Error(Code::kResourceExhausted, str(source, ": ", tokens.size(),
                                              " token ids exceed the limit of ", kMaxVocabulary));
  }
  entries_.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) add(tokens[id], id, source);
  by_text_.reserve(tokens.size());
  for (int32_t id = 0; id < size(); ++id) {
    if (kind(id) == TokenKind::kHole) continue;
    const auto [at, inserted] = by_text_.emplace(text(id), id);
    if (!inserted) {
      throw Error(Code::kDataLoss, str(source, ": tokens ", at->second, " and ", id,
                                       " have the same text ", quote_text(text(id))));
    }
  }
}

void Vocabulary::add(const TokenSpec& token, size_t id, const std::string& source) {
  if (token.text.size() > kMaxTokenBytes) {
    throw Error(Code::kResourceExhausted, str(source, ": token ", id, " is ", token.text.size(),
                                              " bytes long, above the limit of ", kMaxTokenBytes));
  }
  if (const auto broken = find_broken_utf8(token.text)) {
    throw Error(Code::kDataLoss, str(source, ": token ", id, " is not UTF-8 at byte ", *broken));
  }
  std::optional<std::string> unspelled;
  if (token.kind == TokenKind::kModel) unspelled = unspell_bytes(token.text);
  const std::string& bytes = unspelled ? *unspelled : token.text;
  entries_.push_back({texts_.size(), bytes_.size(), static_cast<uint32_t>(token.text.size()),
                      static_cast<uint32_t>(bytes.size()), token.kind, unspelled.has_value()});
  texts_ += token.text;
  bytes_ += bytes;
}

bool Vocabulary::contains(int64_t id) const {
  return id >= 0 && id < size() && kind(static_cast<int32_t>(id)) != TokenKind::kHole;
}

std::string_view Vocabulary::text(int32_t id) const {
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(texts_).substr(entry.text_begin, entry.text_size);
}

std::string_view Vocabulary::bytes(int32_t id) const {
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(bytes_).substr(entry.bytes_begin, entry.bytes_size);
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const auto at = by_text_.find(text);
  if (at == by_text_.end()) return std::nullopt;
  return at->second;
}

}  // namespace rl
