// What the kernels of attention share: sizes, rows and tiles of a call, and the order of the
// forward's sums. The contract, and the layout of KV blocks, are those of ops/attention.h.
//
// A run is a number of consecutive rows of one sequence. The rows and query heads that read one kv
// head form pairs: pair i of a run is head i % group of row i / group. A tile is a range of pairs
// of a run; a block of the grid computes it for one kv head.
//
// Order of the forward, for each pair alone: keys are cut into splits of kSplitTokens positions,
// counted from position 0 of the sequence, and a split into steps of a fixed number of positions
// (attention_mma.h, attention_fma.h). A split starts anew and makes one online-softmax update for
// each step, steps in order. The splits' results are then merged in order (attention_softmax.h).
// Steps and splits without a key of the pair change nothing. So the bits of a pair follow from its
// position, the window and the shape, whatever shares its tile, and whether one block of the grid
// walks the splits or each has a block of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/dtype.h"
#include "device/cuda/lang/kernel.h"

namespace rl::cuda {

inline constexpr int kSplitTokens = 512;
// The largest padded head size.
inline constexpr int kMaxAttentionWidth = 256;

// Head size and kv head of a call, with the rule which keys a row attends.
struct AttentionSizes {
  int32_t heads, kv_heads, group;
  int32_t head_dim, width;          // D and W
  int32_t block_size, block_shift;  // P = 1 << block_shift
  int32_t window;                   // 0: no limit
  float scale;
  Dtype dtype, kv_dtype;

  RL_DEVICE int first_key(int position) const {
    return window == 0 || position < window ? 0 : position - window + 1;
  }
  RL_DEVICE int64_t kv_elements() const { return int64_t{2} * width * block_size; }
};

struct AttentionRun {
  int32_t first_row, rows;
  int32_t first_position;
  int32_t table;  // index of its first block id
};

struct AttentionTile {
  int32_t run;
  int32_t first_pair, end_pair;
  int32_t split;    // the only split to compute, or -1: all, merged
  int32_t partial;  // with a split: index of its first pair's partial result
};

// Calls each(0) to each(N - 1) without a loop, so that arrays indexed by it stay in registers.
template <int N, typename Each>
RL_DEVICE void unrolled(const Each& each) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (each(I), ...); }
  (std::make_integer_sequence<int, N>());
}

RL_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
RL_DEVICE int larger(int a, int b) { return a < b ? b : a; }

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
  // Keys that some pair attends.
  RL_DEVICE int first_key() const { return sizes.first_key(position(0)); }
  RL_DEVICE int end_key() const { return position(count() - 1) + 1; }
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
    return blocks[position >> sizes.block_shift] * (sizes.kv_elements() * sizes.kv_heads);
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
  return pool + kv_head * s.kv_elements() * (s.kv_dtype == Dtype::kF32 ? 4 : 2);
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
