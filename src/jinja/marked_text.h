// Text that remembers, byte by byte, whether a chat template wrote it or it came in with the
// messages. Tokenizing a chat needs this: a special token spelled in a message must stay text.
// Invariant: bytes() is well-formed UTF-8 if everything put in was.
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
  // One byte per byte of text, nonzero for input; empty if there is no input at all.
  std::string_view marks() const { return marks_; }

  MarkedText substr(size_t at, size_t count = std::string::npos) const;
  void append(const MarkedText& other, size_t at = 0, size_t count = std::string::npos);
  void append(std::string_view bytes, Origin origin);

 private:
  std::string bytes_;
  std::string marks_;  // empty, or as long as bytes_
};

}  // namespace rl
