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
#include <limits>
#include <type_traits>

#include "core/dtype.h"

namespace rl::cuda {

inline constexpr int kSplitTokens = 512;
// The largest padded head size.
inline constexpr int kMaxAttentionWidth = 256;

// Calls f with the least width that kernels are made for and that is not below, as a constant.
template <typename F>
void with_kernel_width(int width, F&& f) {
  if (width <= 64) return f(std::integral_constant<int, 64>());
  if (width <= 128) return f(std::integral_constant<int, 128>());
  f(std::integral_constant<int, kMaxAttentionWidth>());
}

// Head size and kv head of a call, with the rule which keys a row attends.
struct AttentionSizes {
  int32_t heads, kv_heads, group;
  int32_t head_dim, width;          // D and W
  int32_t block_size, block_shift;  // P = 1 << block_shift
  int32_t window;                   // 0: no limit
  float scale;
  Dtype dtype, kv_dtype;
};

struct AttentionRun {
  int32_t first_row, rows;
  int32_t first_position;
  int32_t table;  // index of its first block id
  // The only keys of a call that has some of them, as far as the rows attend them: positions.
  int32_t first_key = 0, end_key = std::numeric_limits<int32_t>::max();
};

struct AttentionTile {
  int32_t run;
  int32_t first_pair, end_pair;
  int32_t split;    // the only split to compute, or -1: all, merged
  int32_t partial;  // with a split: index of its first pair's partial result
};

}  // namespace rl::cuda
