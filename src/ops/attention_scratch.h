// Scratch layout of the attention backward. If the scratch is aligned to a cache line, so is every
// part.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/attention.h"

namespace rl {

// Keeps the scores of a tile in L1. Even, because interleave_rounded() takes the rows of a tile two
// by two: an odd count is padded by one row, which must fit a tile's buffers.
constexpr int64_t kTilePairs = 48;

class FloatScratch {
 public:
  explicit FloatScratch(float* next) : next_(next) {}
  template <typename T>
  static constexpr int64_t floats(int64_t n) {
    return (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 16;
  }
  template <typename T>
  T* take(int64_t n) {
    T* at = reinterpret_cast<T*>(next_);
    next_ += floats<T>(n);
    return at;
  }

 private:
  float* next_;
};

// For a piece of kAttentionBackwardChunk rows.
inline int64_t backward_scratch_floats(const AttentionShape& s) {
  const auto floats = [](int64_t n) { return FloatScratch::floats<float>(n); };
  const auto halves = [](int64_t n) { return FloatScratch::floats<bf16>(n); };
  const int64_t W = s.padded_dim(), pairs = kAttentionBackwardChunk * s.group(), run = pairs * W;
  const int64_t block = W * s.block_size, tile = kTilePairs * s.block_size;
  const int64_t wide = 3 * floats(run) + 5 * floats(block);
  const int64_t rounded = 3 * halves(run) + floats(run) + 2 * halves(block) + 2 * floats(block) +
                          3 * halves(tile) + floats(std::max(kTilePairs, s.block_size));
  return 2 * floats(pairs) + 2 * floats(tile) + std::max(wide, rounded);
}

}  // namespace rl
