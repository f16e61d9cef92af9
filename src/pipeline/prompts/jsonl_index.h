// Indexes a JSONL file by byte offsets: one pass finds every line, rows are read on demand. Errors
// number lines from 1. Invariant: every row is non-empty and at most kMaxLineBytes long.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/fs.h"

namespace rl {

inline constexpr uint64_t kMaxLineBytes = uint64_t{64} << 20;

class JsonlIndex {
 public:
  // Errors: kDataLoss for an empty file or an empty line, kResourceExhausted for a line that is
  // too long; all name file and line.
  JsonlIndex(FileSystem& fs, const std::string& path);

  int64_t num_rows() const { return static_cast<int64_t>(ends_.size()); }
  // The text of a row (from 0), without its line end.
  std::string row(int64_t row) const;
  // "file:12" of row 11.
  std::string location(int64_t row) const;
  const std::string& path() const { return file_->path(); }
  // Digest of the file's bytes.
  uint64_t digest() const { return digest_; }

 private:
  void add_line(uint64_t begin, uint64_t end);

  std::unique_ptr<InputFile> file_;
  std::vector<uint64_t> ends_;  // offset of each line's end; the next line begins one later
  uint64_t digest_ = 0;
};

}  // namespace rl
