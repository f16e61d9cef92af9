// The rows of a JSONL file, read when they are asked for or kept in memory (data.streaming).
// Reading is thread-safe.
#pragma once
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/prompts/jsonl_index.h"

namespace rl {

// Which rows are kept in memory.
struct KeptRows {
  bool all = false;
  int64_t last = 0;  // otherwise: so many, those that were read last
};

class JsonlRows {
 public:
  // Errors of JsonlIndex, and of reading the rows that are kept.
  JsonlRows(FileSystem& fs, const std::string& path, KeptRows kept);

  const JsonlIndex& index() const { return index_; }
  std::string row(int64_t row) const;
  // Rows that were read from the file because they were asked for.
  int64_t num_read() const { return num_read_; }

 private:
  struct Kept {
    int64_t row;
    std::string text;
  };
  bool find(int64_t row, std::string& text) const;
  void keep(int64_t row, const std::string& text) const;

  const JsonlIndex index_;
  const int64_t num_last_;
  std::vector<std::string> all_;  // empty: not all are kept
  mutable std::atomic<int64_t> num_read_ = 0;
  mutable std::mutex mutex_;
  mutable std::list<Kept> last_;  // the latest first
  mutable std::unordered_map<int64_t, std::list<Kept>::iterator> places_;
};

}  // namespace rl
