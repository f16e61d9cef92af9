// RoPE for queries and keys (half-split pairing: component i pairs with i + D/2), and the write of
// keys and values into their KV block. Some models norm each query and key head before rotation.
// Rounding: bias, norm (the arithmetic of rms_norm.h) and rotation in fp32; q is then rounded once
// to the compute dtype, k and v to the dtype of their block.
#pragma once
#include <cstdint>

#include "ops/attention.h"
#include "ops/rms_norm.h"
#include "ops/rope_table.h"

namespace rl {

// RMSNorm over every query head and key head, with one weight vector for each kind.
struct HeadNorm {
  const float* q;  // (D)
  const float* k;  // (D)
  float eps;
  NormWeight weight;
};

// Where one row goes: its position and the pool block that holds it.
struct RowPlace {
  int32_t position;
  int32_t block;
};

struct RopeKvArgs {
  AttentionShape shape;
  const float* qkv;        // (rows, heads of the range, D) fp32, rows `stride` floats apart
  const float* bias;       // ((H + 2 KH) D) or null; not together with norm
  const HeadNorm* norm;    // or null
  const RowPlace* places;  // (rows)
  const RopeTable* table;
  void* q;          // (rows, H, W) compute dtype, zero-padded like keys and values
  std::byte* pool;  // this layer's blocks
  int64_t rows;
  // The head range, counted over a row's queries, keys and values in that order. Heads are
  // independent.
  int64_t first_head = 0, end_head = shape.heads + 2 * shape.kv_heads;
  int64_t stride = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
};
void rope_and_write_kv(const RopeKvArgs& args);
// The same for one kv head of whole rows: its key, its value and the queries that read it.
void rope_and_write_kv(const RopeKvArgs& args, int64_t kv_head);

// Copies the first `tokens` keys and values of a block, every kv head, to another block of this
// layer.
struct CopyKvArgs {
  AttentionShape shape;
  std::byte* pool;  // this layer's blocks
  int32_t from, to;
  int64_t tokens;  // at most one block
};
void copy_kv(const CopyKvArgs& args);

// In place: gradients of q and k -> gradients of the QKV projection (inverse RoPE, then norm
// backward), on (rows, (H + 2 KH) D) fp32. The result is rounded into dqkv_rounded (same shape,
// compute dtype).
struct RopeBackwardArgs {
  AttentionShape shape;
  float* dqkv;
  const RowPlace* places;
  const RopeTable* table;
  void* dqkv_rounded;
  int64_t rows;
  const HeadNorm* norm;  // if null, qkv and d_norm are null too
  const float* qkv;      // (rows, (H + 2 KH) D) fp32, the forward's input
  float* d_norm;  // (2 D) gradients of the norm's q and k weights, accumulated: rows in order,
                  // heads in order within a row
};
void rope_backward(const RopeBackwardArgs& args);

}  // namespace rl
