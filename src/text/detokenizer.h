// Streaming detokeniser: takes ids one at a time and returns text as soon as it is complete.
// Invariant: the texts returned by feed, joined with the one from finish, equal Tokenizer::decode
// of all ids, and no feed returns part of a code point.
#pragma once
#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace rl {

class Detokenizer {
 public:
  Detokenizer(Tokenizer tokenizer, bool skip_special)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // The text completed by this id; empty while the bytes so far end in an unfinished or broken
  // sequence. An id without a token is kOutOfRange and changes nothing.
  std::string feed(int32_t id);
  // Returns the rest, with broken bytes as U+FFFD, and resets the detokeniser.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;
};

}  // namespace rl
