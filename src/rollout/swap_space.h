// Ids of places outside the KV pool that hold the blocks of waiting sequences. The bytes belong to
// the arena in which the engine works.
#pragma once
#include <cstdint>
#include <vector>

#include "core/error.h"

namespace rl {

class SwapSpace {
 public:
  explicit SwapSpace(int64_t num_blocks) {
    free_.reserve(static_cast<size_t>(num_blocks));
    for (int64_t b = num_blocks - 1; b >= 0; --b) free_.push_back(static_cast<int32_t>(b));
  }
  bool has_room(size_t blocks) const { return blocks <= free_.size(); }
  int32_t take() {
    RL_CHECK(!free_.empty());
    const int32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  void release(int32_t block) { free_.push_back(block); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

 private:
  std::vector<int32_t> free_;
};

}  // namespace rl
