// Where the prompts of a run come from. The n-th prompt of a run is always the same row: files are
// shuffled per epoch by a permutation of (seed, epoch), epochs counted on; rows fed by the host
// come in the order fed.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "pipeline/prompts/jsonl_rows.h"
#include "pipeline/prompts/prompt_row.h"

namespace rl {

// The order of `count` rows in one epoch; the identity without shuffling.
std::vector<uint32_t> epoch_order(int64_t count, bool shuffle, uint64_t seed, uint64_t epoch);

class PromptFile {
 public:
  struct Order {
    bool shuffle = false;
    uint64_t seed = 0;
  };
  PromptFile(FileSystem& fs, const std::string& path, Order order, KeptRows kept = {});

  int64_t num_rows() const { return rows_.index().num_rows(); }
  uint64_t digest() const { return rows_.index().digest(); }
  int64_t num_rows_read() const { return rows_.num_read(); }  // of the file
  uint64_t epoch_of(uint64_t ordinal) const { return ordinal / num_rows(); }
  // The row of an ordinal.
  int64_t row_of(uint64_t ordinal);
  // The prompt of a row. Thread-safe.
  Prompt read(int64_t row, const LoadedModel& model, const PromptLimits& limits) const;

 private:
  JsonlRows rows_;
  Order order_;
  uint64_t epoch_ = UINT64_MAX;
  std::vector<uint32_t> drawn_;  // rows of epoch_, in their order
};

// Rows that the host feeds, at most `capacity` of them waiting. Not thread-safe.
class PromptFeed {
 public:
  explicit PromptFeed(int64_t capacity, int64_t first_row)
      : capacity_(capacity), next_row_(first_row) {}
  bool full() const { return static_cast<int64_t>(rows_.size()) >= capacity_; }
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  int64_t capacity() const { return capacity_; }
  // Name of the next row in errors: "feed:12".
  std::string next_location() const;
  void push(Prompt prompt);
  Prompt pop();
  void end() { ended_ = true; }
  bool ended() const { return ended_; }

 private:
  int64_t capacity_, next_row_;
  bool ended_ = false;
  std::deque<Prompt> rows_;
};

}  // namespace rl
