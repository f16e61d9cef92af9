// Tiles in shared memory and fragments for the products of attention in bf16 (device/cuda/lang/
// ptx.h): keys lie transposed, as in their block, everything else by rows. Rows are 16 bytes longer
// than their content, so that the eight rows of a fragment's tile lie in different banks.
//
// A step is kTokens positions. Each product is one chain of mma over its inner dimension, 16
// elements at a time in order; a row of a product does not depend on the other rows.
#pragma once
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/ptx.h"
#include "ops/cuda/kernels/attention/attention_places.h"

namespace rl::cuda {

// Sizes for head sizes up to kWidth.
template <int kWidth>
struct MmaTiles {
  static constexpr int kTokens = kWidth <= 128 ? 64 : 32;
  static constexpr int kWarps = kWidth <= 128 ? 4 : 2;  // most of a block; each has 16 pairs
  static constexpr int kKeyStride = kTokens + 8;        // elements of a row of keys
  static constexpr int kRowStride = kWidth + 8;         // and of any other
  static constexpr size_t kKeyBytes = size_t{2} * kWidth * kKeyStride;
  static constexpr size_t kValueBytes = size_t{2} * kTokens * kRowStride;
};
inline constexpr int kMmaPairs = 16;  // of a warp

RL_DEVICE uint32_t bf16_pair(float low, float high) {
  return to_bf16(low).bits | static_cast<uint32_t>(to_bf16(high).bits) << 16;
}

// Fragments from a tile whose rows are `stride` elements apart. `rows` and `columns` count from the
// tile's first element. The a operand of 16 rows and columns, and of a tile that lies transposed:
RL_DEVICE void load_a(uint32_t (&a)[4], const bf16* tile, int stride, int row, int column) {
  const int lane = lane_index();
  load_tiles(a, tile + (row + lane % 16) * stride + column + lane / 16 * 8);
}
RL_DEVICE void load_a_transposed(uint32_t (&a)[4], const bf16* tile, int stride, int row,
                                 int column) {
  const int lane = lane_index();
  load_tiles_transposed(
      a, tile + (column + lane / 16 * 8 + lane % 8) * stride + row + lane / 8 % 2 * 8);
}
// The b operands of columns 0-7 (b[0], b[1]) and 8-15 (b[2], b[3]) of a product, from a tile whose
// rows are its inner dimension, and from one whose rows are its columns.
RL_DEVICE void load_b(uint32_t (&b)[4], const bf16* tile, int stride, int inner, int column) {
  const int lane = lane_index();
  load_tiles_transposed(b, tile + (inner + lane % 16) * stride + column + lane / 16 * 8);
}
RL_DEVICE void load_b_by_columns(uint32_t (&b)[4], const bf16* tile, int stride, int inner,
                                 int column) {
  const int lane = lane_index();
  load_tiles(b, tile + (column + lane / 16 * 8 + lane % 8) * stride + inner + lane / 8 % 2 * 8);
}
// d[0], d[1] += a times 16 columns.
RL_DEVICE void multiply_16_columns(float (&low)[4], float (&high)[4], const uint32_t (&a)[4],
                                   const uint32_t (&b)[4]) {
  const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
  mma_bf16_16x8x16(low, a, first);
  mma_bf16_16x8x16(high, a, second);
}
// Two neighbouring accumulators of 8 columns as the a operand of the next product, rounded.
RL_DEVICE void round_as_a(uint32_t (&a)[4], const float (&low)[4], const float (&high)[4]) {
  a[0] = bf16_pair(low[0], low[1]);
  a[1] = bf16_pair(low[2], low[3]);
  a[2] = bf16_pair(high[0], high[1]);
  a[3] = bf16_pair(high[2], high[3]);
}

// Starts the copy of 8 elements, of which [first, end) exist; the others become zeros.
RL_DEVICE void copy_8(const bf16* from, int first, int end, bf16* to) {
  if (first <= 0 && end >= 8) return copy_async_16(to, from);
  for (int i = 0; i < 8; ++i) to[i] = i >= first && i < end ? from[i] : bf16{0};
}

// Starts the copy of the keys of a step to a (W, kTokens) tile, by all threads of the block.
template <int kTokens>
RL_DEVICE void load_keys(const KvSource& kv, int start, bf16* to) {
  constexpr int kChunks = kTokens / 8;
  const int chunk = thread_index() % kChunks, position = start + 8 * chunk;
  const int first = kv.first - position, end = kv.end - position;
  const bool any = first < 8 && end > 0;
  const bf16* from = static_cast<const bf16*>(kv.pool) + (any ? kv.key(position, 0) : 0);
  for (int d = thread_index() / kChunks; d < kv.sizes.width; d += block_threads() / kChunks)
    copy_8(from + int64_t{d} * kv.sizes.block_size, first, any ? end : 0,
           to + d * (kTokens + 8) + 8 * chunk);
}
// The same of the values, to a (kTokens, W) tile.
template <int kWidth, int kTokens>
RL_DEVICE void load_values(const KvSource& kv, int start, bf16* to) {
  constexpr int kChunks = kWidth / 8;
  for (int i = thread_index(); i < kTokens * kChunks; i += block_threads()) {
    const int token = i / kChunks, d = i % kChunks * 8, position = start + token;
    if (d >= kv.sizes.width) continue;
    const bool exists = kv.holds(position);
    const bf16* from = static_cast<const bf16*>(kv.pool) + (exists ? kv.value(position, d) : 0);
    copy_8(from, 0, exists ? 8 : 0, to + token * (kWidth + 8) + d);
  }
}
// The same of the queries of `rows` pairs, from `index` of the tile on, to a (rows, W) tile.
template <int kWidth>
RL_DEVICE void load_queries(const TilePairs& pairs, int index, int rows, const void* q, bf16* to) {
  constexpr int kChunks = kWidth / 8;
  const int width = pairs.sizes.width;
  for (int i = thread_index(); i < rows * kChunks; i += block_threads()) {
    const int row = i / kChunks, d = i % kChunks * 8;
    if (d < width)
      copy_async_16(to + row * (kWidth + 8) + d,
                    static_cast<const bf16*>(q) + pairs.place(index + row) * width + d);
  }
}

// Output gradients of `rows` pairs, from `index` of the tile on, each as the sum of two bf16, to
// two (rows, W) tiles.
template <int kWidth>
RL_DEVICE void split_gradients(const TilePairs& pairs, int index, int rows, const float* d_out,
                               bf16* high, bf16* low) {
  const int dim = pairs.sizes.head_dim, width = pairs.sizes.width;
  for (int row = warp_index(); row < rows; row += block_warps()) {
    const int64_t from = pairs.place(index + row) * dim;
    for (int d = lane_index(); d < width; d += kLanes) {
      const float value = d < dim ? d_out[from + d] : 0.0f;
      const bf16 rounded = to_bf16(value);
      high[row * (kWidth + 8) + d] = rounded;
      low[row * (kWidth + 8) + d] = to_bf16(value - to_float(rounded));
    }
  }
}

}  // namespace rl::cuda
