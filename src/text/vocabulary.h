// The tokens of a tokenizer: id to text and bytes, text to id. Immutable. Invariant: no two tokens
// have the same text, and every returned view lives as long as the vocabulary.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer_spec.h"

namespace rl {

class Vocabulary {
 public:
  // Throws if two tokens share a text, a token is too long or a text is not UTF-8.
  Vocabulary(const std::vector<TokenSpec>& tokens, const std::string& source);

  // Not movable: the views of by_text_ point into the arenas.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  bool contains(int64_t id) const;
  TokenKind kind(int32_t id) const { return entries_[static_cast<size_t>(id)].kind; }
  // True if a model token's text is spelled in the byte-level alphabet.
  bool is_spelled(int32_t id) const { return entries_[static_cast<size_t>(id)].spelled; }
  std::string_view text(int32_t id) const;
  std::string_view bytes(int32_t id) const;
  std::optional<int32_t> find(std::string_view text) const;

 private:
  struct Entry {
    uint64_t text_begin;
    uint64_t bytes_begin;
    uint32_t text_size;
    uint32_t bytes_size;
    TokenKind kind;
    bool spelled;
  };
  void add(const TokenSpec& token, size_t id, const std::string& source);

  std::vector<Entry> entries_;
  std::string texts_;
  std::string bytes_;
  std::unordered_map<std::string_view, int32_t> by_text_;
};

}  // namespace rl
