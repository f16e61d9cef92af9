// A forward reader over a checked range of a file, for binary headers. Every read is first checked
// against the bytes left, so a length from the file never reaches an allocation unchecked.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/fs.h"

namespace rl {

class HeaderReader {
 public:
  // Reads from offset on and never beyond limit or the end of the file.
  HeaderReader(const InputFile& file, uint64_t offset, uint64_t limit);

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return end_ - offset_; }
  template <typename T>
  T scalar(const char* what) {
    T v;
    copy(&v, sizeof v, what);
    return v;
  }
  // Reads a 64-bit length and that many bytes; more than max_bytes is Error(kResourceExhausted).
  std::string text(uint64_t max_bytes, const char* what);
  void skip_text(uint64_t max_bytes, const char* what);
  void skip(uint64_t bytes, const char* what);
  [[noreturn]] void fail(Code code, const std::string& message) const {
    fail_at(offset_, code, message);
  }
  [[noreturn]] void fail_at(uint64_t offset, Code code, const std::string& message) const;

 private:
  uint64_t text_length(uint64_t max_bytes, const char* what);
  void require(uint64_t bytes, const char* what) const;
  void copy(void* out, size_t bytes, const char* what);

  static constexpr uint64_t kWindowBytes = uint64_t{64} << 10;
  const InputFile& file_;
  uint64_t offset_;
  uint64_t end_;
  std::vector<std::byte> window_;
  uint64_t window_offset_ = 0;
};

}  // namespace rl
