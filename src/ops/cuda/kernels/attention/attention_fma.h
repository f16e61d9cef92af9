// Tiles in shared memory for the products of attention in fp32, whatever the types of queries, keys
// and values. A step is kFmaTokens positions. Each product is one chain of fused multiply-adds over
// its inner dimension in order.
//
// A block has kFmaWarps warps. A warp has some rows of a tile (pairs or keys), a lane one column
// of scores and every 32nd column of what has the width of a head. Rows of a tile that lanes read
// one each are one element longer, so that they lie in different banks.
#pragma once
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "ops/cuda/kernels/attention/attention_places.h"

namespace rl::cuda {

inline constexpr int kFmaTokens = kLanes;
inline constexpr int kFmaWarps = 4;
inline constexpr int kFmaThreads = kFmaWarps * kLanes;

// Keys of a step as a (W, kFmaTokens) tile with rows `stride` apart.
RL_DEVICE void widen_keys(const KvSource& kv, int start, float* to, int stride) {
  const int position = start + lane_index();
  const bool exists = kv.holds(position);
  const int64_t from = exists ? kv.key(position, 0) : 0;
  for (int d = warp_index(); d < kv.sizes.width; d += kFmaWarps) {
    to[d * stride + lane_index()] =
        exists ? load_element(kv.sizes.kv_dtype, kv.pool, from + int64_t{d} * kv.sizes.block_size)
               : 0.0f;
  }
}
// Values of a step as a (kFmaTokens, W) tile with rows `stride` apart.
RL_DEVICE void widen_values(const KvSource& kv, int start, float* to, int stride) {
  for (int token = warp_index(); token < kFmaTokens; token += kFmaWarps) {
    const bool exists = kv.holds(start + token);
    const int64_t from = exists ? kv.value(start + token, 0) : 0;
    for (int d = lane_index(); d < kv.sizes.width; d += kLanes)
      to[token * stride + d] = exists ? load_element(kv.sizes.kv_dtype, kv.pool, from + d) : 0.0f;
  }
}
// Scaled queries of `rows` pairs, from `index` of the tile on, with rows `stride` apart.
RL_DEVICE void scale_queries(const TilePairs& pairs, int index, int rows, const void* q, float* to,
                             int stride) {
  const AttentionSizes& s = pairs.sizes;
  for (int row = warp_index(); row < rows; row += kFmaWarps) {
    const int64_t from = pairs.place(index + row) * s.width;
    for (int d = lane_index(); d < s.width; d += kLanes)
      to[row * stride + d] = load_element(s.dtype, q, from + d) * s.scale;
  }
}
// Output gradients of `rows` pairs, padded to W.
RL_DEVICE void widen_gradients(const TilePairs& pairs, int index, int rows, const float* d_out,
                               float* to, int stride) {
  const AttentionSizes& s = pairs.sizes;
  for (int row = warp_index(); row < rows; row += kFmaWarps) {
    const int64_t from = pairs.place(index + row) * s.head_dim;
    for (int d = lane_index(); d < s.width; d += kLanes)
      to[row * stride + d] = d < s.head_dim ? d_out[from + d] : 0.0f;
  }
}

}  // namespace rl::cuda
