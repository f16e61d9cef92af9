// Where the prompts of a run come from. The n-th prompt of a run is always the same row: files are
// shuffled per epoch by a permutation of (seed, epoch), epochs counted on; rows fed by the host
// come in the order fed.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "pipeline/prompts/jsonl_index.h"
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
  PromptFile(FileSystem& fs, const std::string& path, Order order);

  int64_t num_rows() const { return index_.num_rows(); }
  uint64_t digest() const { return index_.digest(); }
  uint64_t epoch_of(uint64_t ordinal) const { return ordinal / num_rows(); }
  // The prompt of an ordinal, or of a row of the file.
  Prompt draw(uint64_t ordinal, const LoadedModel& model, const PromptLimits& limits);
  Prompt read(int64_t row, const LoadedModel& model, const PromptLimits& limits) const;

 private:
  JsonlIndex index_;
  Order order_;
  uint64_t epoch_ = UINT64_MAX;
  std::vector<uint32_t> rows_;  // of epoch_
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
