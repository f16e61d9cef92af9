// RoPE of queries and keys, the write of keys and values into their blocks, and the way back. The
// formulas and rounding points are those of ops/rope_kv.h, the layout of a block that of
// ops/attention.h. A warp has a head of a row; the sums of head norms have the order of a row of D
// elements (row_team.h). Rotation: x1 cos - x2 sin = fma(-x2, sin, x1 cos), x2 cos + x1 sin =
// fma(x1, sin, x2 cos).
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "ops/cuda/kernels/rows/norm_params.h"

namespace rl::cuda {

// The heads of a row of the projection: H queries, KH keys, KH values, of D components each.
struct HeadsOfRow {
  int64_t heads, kv_heads, head_dim;
  int64_t padded_dim;  // W, of q and of blocks
  int64_t block_size;  // P
  Dtype dtype, kv_dtype;
};

// Where a row goes, and its row in the tables of angles.
struct RowTurn {
  int32_t position, block, angle;
};
struct Angles {
  const RowTurn* turns;    // (rows)
  const float *cos, *sin;  // (angles, D / 2)
};

// Norms of query heads and key heads; without norms both weights are null.
struct HeadNorms {
  NormParams q, k;
};

// Heads [first_head, end_head) of every row, counted over queries, keys and values.
struct RopeKvParams {
  HeadsOfRow shape;
  const float* qkv;  // (rows, heads of the range, D), rows `stride` floats apart
  int64_t stride;
  const float* bias;  // ((H + 2 KH) D), or null
  HeadNorms norms;
  Angles angles;
  void* q;          // (rows, H, W)
  std::byte* pool;  // this layer's blocks
  int64_t rows, first_head, end_head;
};
void rope_and_write_kv(cudaStream_t stream, const RopeKvParams& params);

// Copies the first `tokens` keys and values of block `from` to block `to`, all KV heads.
struct PartialBlock {
  int32_t from, to, tokens;
};
struct CopyPartialBlocksParams {
  HeadsOfRow shape;
  std::byte* pool;
  const PartialBlock* blocks;  // (count), no block is written that another reads
  int64_t count;
};
void copy_partial_blocks(cudaStream_t stream, const CopyPartialBlocksParams& params);

// Adds to the key and value gradients of each shared prefix the sums of its parts, in order.
struct PrefixSums {
  int32_t first_row, rows;
  int32_t first_part, end_part;
};
struct AddPrefixSumsParams {
  const PrefixSums* prefixes;  // (count)
  int64_t count;
  const float* const* parts;  // (rows of the prefix, width) each
  int64_t width;              // 2 KH D
  float* to;                  // row r at to + r * stride
  int64_t stride;
};
void add_prefix_sums(cudaStream_t stream, const AddPrefixSumsParams& params);

// The backward, in three launches. First, in place: the gradients of queries and keys are rotated
// back. With norms, slopes (rows, H + KH) and inverse (rows, H + KH) say what the norms' backward
// needs; head_norm_sums() of vector_gradients_kernels.h sums their weights' gradients from dqkv and
// inverse before the second launch.
struct RopeBackwardParams {
  HeadsOfRow shape;
  float* dqkv;  // (rows, (H + 2 KH) D)
  Angles angles;
  HeadNorms norms;
  const float* qkv;  // (rows, (H + 2 KH) D), the norms' input; unused without norms, as
  float* inverse;    // these are: 1 / rms
  float* pull;       // and NormSlope::pull of each head
  int64_t rows;
};
void rope_rows_backward(cudaStream_t stream, const RopeBackwardParams& params);

// Then, in place too, the norms' backward, and dqkv rounded to the compute dtype.
struct RoundHeadsParams {
  RopeBackwardParams of;
  void* rounded;  // (rows, (H + 2 KH) D)
};
void round_head_gradients(cudaStream_t stream, const RoundHeadsParams& params);

}  // namespace rl::cuda
