// Pending bytes are released once they end in a whole character. UTF-8 is self-synchronising:
// whether the last one to four bytes are a whole character does not depend on what precedes them,
// so each feed only checks the end.
#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "core/encoding/unicode.h"

namespace rl {
namespace {

// A U+FFFD in the text itself counts as broken: it may be the replacement output of another
// tokenizer, and holding it back costs nothing.
bool ends_in_whole_character(std::string_view bytes) {
  for (size_t length = 1; length <= std::min<size_t>(4, bytes.size()); ++length) {
    const size_t at = bytes.size() - length;
    if (utf8_sequence_length(bytes, at) == length) {
      return decode_utf8(bytes, at, length) != U'\xfffd';
    }
  }
  return false;
}

}  // namespace

std::string Detokenizer::feed(int32_t id) {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  pending_ += bytes;
  if (!ends_in_whole_character(pending_)) return {};
  return finish();
}

std::string Detokenizer::finish() { return replace_broken_utf8(std::exchange(pending_, {})); }

}  // namespace rl
