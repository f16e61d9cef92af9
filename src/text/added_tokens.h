// Finds added tokens in text: the leftmost match wins, the longest one at each position. Immutable
// and thread-safe; worst-case time is the text's length times the length of the longest token.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace rl {

class AddedTokenMatcher {
 public:
  // Tokens with an empty text are never found. The caller must have ruled out two tokens with the
  // same text.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Calls on_text(std::string_view) and on_token(int32_t id) for the parts of text, in order.
  // is_allowed(begin, end) decides whether a special token may be matched; otherwise it stays part
  // of the text.
  template <typename IsAllowed, typename OnText, typename OnToken>
  void split(std::string_view text, IsAllowed&& is_allowed, OnText&& on_text,
             OnToken&& on_token) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken* token = find(text, at);
      if (token == nullptr) {
        ++at;
        continue;
      }
      const size_t after = at + token->text.size();
      if ((!token->special || is_allowed(at, after)) && stands_alone(*token, text, at)) {
        const Span span = extent(*token, text, at, done);
        if (span.begin > done) on_text(text.substr(done, span.begin - done));
        on_token(token->id);
        done = span.end;
      }
      at = after > done ? after : done;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  struct Span {
    size_t begin;
    size_t end;
  };
  // The longest token whose text starts at text[at].
  const AddedToken* find(std::string_view text, size_t at) const;
  static Span extent(const AddedToken& token, std::string_view text, size_t at, size_t done);
  static bool stands_alone(const AddedToken& token, std::string_view text, size_t at);

  std::vector<AddedToken> tokens_;             // sorted by text
  std::array<uint32_t, 257> first_of_byte_{};  // range of tokens_ by first byte
};

}  // namespace rl
