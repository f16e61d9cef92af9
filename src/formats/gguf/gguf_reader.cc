// Small reads go through a window of the file, large ones straight to their destination.
#include "formats/gguf/gguf_reader.h"

#include <algorithm>

namespace rl {

HeaderReader::HeaderReader(const InputFile& file, uint64_t offset, uint64_t limit)
    : file_(file), offset_(offset), end_(std::min(file.size(), limit)) {
  RL_CHECK(offset_ <= end_);
}

void HeaderReader::fail_at(uint64_t offset, Code code, const std::string& message) const {
  throw Error(code, str(file_.path(), ": ", message, " at offset ", offset))
      .with_location(str(file_.path(), " offset ", offset));
}

void HeaderReader::require(uint64_t bytes, const char* what) const {
  if (bytes <= remaining()) return;
  fail(Code::kDataLoss,
       str(what, " needs ", bytes, " bytes, but the header has ", remaining(), " left"));
}

void HeaderReader::copy(void* out, size_t bytes, const char* what) {
  require(bytes, what);
  auto* to = static_cast<std::byte*>(out);
  if (bytes >= kWindowBytes) {
    file_.read_at(offset_, std::span(to, bytes));
    offset_ += bytes;
    return;
  }
  if (offset_ < window_offset_ || offset_ + bytes > window_offset_ + window_.size()) {
    window_.resize(std::min(kWindowBytes, remaining()));
    window_offset_ = offset_;
    file_.read_at(offset_, window_);
  }
  if (bytes > 0) std::memcpy(to, window_.data() + (offset_ - window_offset_), bytes);
  offset_ += bytes;
}

uint64_t HeaderReader::text_length(uint64_t max_bytes, const char* what) {
  const uint64_t start = offset_;
  const auto length = scalar<uint64_t>(what);
  if (length > max_bytes) {
    fail_at(start, Code::kResourceExhausted,
            str(what, " of ", length, " bytes exceeds the limit of ", max_bytes));
  }
  require(length, what);
  return length;
}

std::string HeaderReader::text(uint64_t max_bytes, const char* what) {
  std::string out(text_length(max_bytes, what), '\0');
  copy(out.data(), out.size(), what);
  return out;
}

void HeaderReader::skip_text(uint64_t max_bytes, const char* what) {
  skip(text_length(max_bytes, what), what);
}

void HeaderReader::skip(uint64_t bytes, const char* what) {
  require(bytes, what);
  offset_ += bytes;
}

}  // namespace rl
