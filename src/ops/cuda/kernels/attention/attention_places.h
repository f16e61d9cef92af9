// Places of the rows, keys and values of a call of attention: what every kernel of it computes from
// attention_params.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/dtype.h"
#include "device/cuda/lang/kernel.h"
#include "ops/cuda/kernels/attention/attention_params.h"

namespace rl::cuda {

// Calls each(0) to each(N - 1) without a loop, so that arrays indexed by it stay in registers.
template <int N, typename Each>
RL_DEVICE void unrolled(const Each& each) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (each(I), ...); }
  (std::make_integer_sequence<int, N>());
}

RL_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
RL_DEVICE int larger(int a, int b) { return a < b ? b : a; }

// The first key that the row at a position attends.
RL_DEVICE int first_key_of(const AttentionSizes& s, int position) {
  return s.window == 0 || position < s.window ? 0 : position - s.window + 1;
}
// Elements of one kv head's keys and values in one block.
RL_DEVICE int64_t kv_elements(const AttentionSizes& s) {
  return int64_t{2} * s.width * s.block_size;
}

// The pairs of a tile for one kv head.
struct TilePairs {
  const AttentionSizes& sizes;
  AttentionRun run;
  int first, end;
  int kv_head;

  // Of the pair at an index of the tile; past the tile's end, of its last pair.
  RL_DEVICE int pair(int index) const { return smaller(first + index, end - 1); }
  RL_DEVICE int position(int index) const { return run.first_position + pair(index) / sizes.group; }
  // Index in (N, H).
  RL_DEVICE int64_t place(int index) const {
    const int at = pair(index);
    return int64_t{run.first_row + at / sizes.group} * sizes.heads + kv_head * sizes.group +
           at % sizes.group;
  }
  RL_DEVICE int count() const { return end - first; }
  // Keys [first, end) that the pair at an index attends.
  RL_DEVICE int first_key(int index) const {
    return larger(run.first_key, first_key_of(sizes, position(index)));
  }
  RL_DEVICE int end_key(int index) const { return smaller(run.end_key, position(index) + 1); }
  // Keys that some pair attends.
  RL_DEVICE int first_key() const { return first_key(0); }
  RL_DEVICE int end_key() const { return end_key(count() - 1); }
};

// Keys and values of one kv head of a sequence, of which positions outside [first, end) count as
// zeros and are never read.
struct KvSource {
  const AttentionSizes& sizes;
  const void* pool;  // at the kv head of block 0
  const int32_t* blocks;
  int first, end;

  // Index in the pool of the first element of the block that holds a position.
  RL_DEVICE int64_t block(int position) const {
    return blocks[position >> sizes.block_shift] * (kv_elements(sizes) * sizes.kv_heads);
  }
  RL_DEVICE int token(int position) const { return position & (sizes.block_size - 1); }
  RL_DEVICE int64_t key(int position, int d) const {
    return block(position) + int64_t{d} * sizes.block_size + token(position);
  }
  RL_DEVICE int64_t value(int position, int d) const {
    return block(position) + int64_t{sizes.block_size + token(position)} * sizes.width + d;
  }
  RL_DEVICE bool holds(int position) const { return position >= first && position < end; }
};
// At the elements of a kv head, of type T.
RL_DEVICE const void* pool_of_head(const AttentionSizes& s, const std::byte* pool, int kv_head) {
  return pool + kv_head * kv_elements(s) * (s.kv_dtype == Dtype::kF32 ? 4 : 2);
}

// Steps [first, end) of keys, and splits that hold them, of a tile.
struct TileSteps {
  int first, end;
  int of_split;  // steps of a split
  RL_DEVICE bool begins_split(int step) const { return step == first || step % of_split == 0; }
  RL_DEVICE bool ends_split(int step) const {
    return step + 1 == end || (step + 1) % of_split == 0;
  }
};
template <int kTokens>
RL_DEVICE TileSteps steps_of_tile(const AttentionTile& tile, const KvSource& kv) {
  constexpr int kSteps = kSplitTokens / kTokens;
  TileSteps steps{kv.first / kTokens, (kv.end + kTokens - 1) / kTokens, kSteps};
  if (tile.split < 0) return steps;
  steps.first = larger(steps.first, tile.split * kSteps);
  steps.end = smaller(steps.end, (tile.split + 1) * kSteps);
  return steps;
}

}  // namespace rl::cuda
