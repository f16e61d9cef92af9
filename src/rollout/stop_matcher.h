// Finds stop strings in a stream of token bytes, even across tokens. Works on bytes: a stop string
// is whole UTF-8, so a match never begins or ends inside a character.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace rl {

class StopMatcher {
 public:
  // Makes room, so that feeding with these strings allocates nothing.
  void reserve(std::span<const std::string> stop_strings);
  // Takes the bytes of the next token; true if they complete one of the strings. The stream may
  // continue after that.
  bool feed(std::string_view bytes, std::span<const std::string> stop_strings);
  // A token without text: no string continues across it.
  void interrupt() { tail_.clear(); }

 private:
  bool feed_piece(std::string_view bytes, std::span<const std::string> stop_strings);

  std::string tail_;  // the last bytes, one fewer than the longest stop string
};

}  // namespace rl
