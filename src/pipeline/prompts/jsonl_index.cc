// Scans in blocks of 1 MiB; needs eight bytes of memory per row.
#include "pipeline/prompts/jsonl_index.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/hash.h"

namespace rl {
namespace {
constexpr uint64_t kPiece = uint64_t{1} << 20;
}

JsonlIndex::JsonlIndex(FileSystem& fs, const std::string& path) : file_(fs.open(path)) {
  Digest64 digest;
  std::vector<std::byte> piece(std::min(kPiece, file_->size()));
  uint64_t line = 0;
  for (uint64_t at = 0; at < file_->size(); at += piece.size()) {
    piece.resize(std::min(kPiece, file_->size() - at));
    file_->read_at(at, piece);
    digest.update(piece);
    for (size_t i = 0; i < piece.size(); ++i) {
      if (piece[i] != std::byte{'\n'}) continue;
      add_line(line, at + i);
      line = at + i + 1;
    }
    if (at + piece.size() - line > kMaxLineBytes) add_line(line, at + piece.size());
  }
  if (line < file_->size()) add_line(line, file_->size());
  digest_ = digest.value();
  if (ends_.empty()) {
    throw Error(Code::kDataLoss, str(path, " has no rows")).with_location(path);
  }
}

void JsonlIndex::add_line(uint64_t begin, uint64_t end) {
  const std::string where = location(num_rows());
  if (begin == end) throw Error(Code::kDataLoss, where + " is an empty line").with_location(where);
  if (end - begin > kMaxLineBytes) {
    throw Error(Code::kResourceExhausted,
                str(where, " is longer than ", kMaxLineBytes, " bytes, the limit for a line"))
        .with_location(where);
  }
  ends_.push_back(end);
}

std::string JsonlIndex::row(int64_t row) const {
  RL_CHECK(row >= 0 && row < num_rows());
  const auto at = static_cast<size_t>(row);
  const uint64_t begin = at == 0 ? 0 : ends_[at - 1] + 1;
  std::string text(ends_[at] - begin, '\0');
  file_->read_at(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string JsonlIndex::location(int64_t row) const { return str(file_->path(), ":", row + 1); }

}  // namespace rl
