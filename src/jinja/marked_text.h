// Text that remembers, byte by byte, whether it was written by a chat template or came in with the
// messages. A chat may become token ids only with this knowledge: a special token that a message
// spells must stay text. Invariant: bytes() is well-formed UTF-8 when every piece put in was.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rl {

class MarkedText {
 public:
  enum class Origin : char { kTemplate = 0, kInput = 1 };

  MarkedText() = default;
  MarkedText(std::string bytes, Origin origin);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Origin origin(size_t at) const {
    return marks_.empty() ? Origin::kTemplate : static_cast<Origin>(marks_[at]);
  }
  // One byte for each of bytes(), not zero for input; empty when there is no input at all.
  std::string_view marks() const { return marks_; }

  MarkedText substr(size_t at, size_t count = std::string::npos) const;
  void append(const MarkedText& other, size_t at = 0, size_t count = std::string::npos);
  void append(std::string_view bytes, Origin origin);

 private:
  std::string bytes_;
  std::string marks_;  // empty, or as long as bytes_
};

}  // namespace rl
