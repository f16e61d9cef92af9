// Rotary embedding of queries and keys (half-split pairing: component i pairs with i + D/2), and the write of keys
// and values into their KV block. Angles are position * theta^(-2i/D), tabled as fp32 cos and sin from double.
// Rounding: bias added and rotation done in fp32; q, k and v rounded once to the compute dtype where they are produced.
#pragma once
#include <cstdint>
#include <vector>

#include "ops/attention.h"

namespace rl {

// cos and sin of every position: (positions, D/2) each.
struct RopeTable {
  int64_t half = 0;
  std::vector<float> cos, sin;
};
RopeTable make_rope_table(int64_t head_dim, int64_t positions, double theta);

// Where one row goes: its position and the pool block that holds it.
struct RowPlace {
  int32_t position;
  int32_t block;
};

struct RopeKvArgs {
  AttentionShape shape;
  const float* qkv;        // (rows, (H + 2 KH) D) fp32
  const float* bias;       // ((H + 2 KH) D) or null
  const RowPlace* places;  // (rows)
  const RopeTable* table;
  void* q;                 // (rows, H, D) compute dtype
  std::byte* pool;         // this layer's blocks
  int64_t rows;
};
void rope_and_write_kv(const RopeKvArgs& args);

// Rotates the gradients of q and k back, in place, on (rows, (H + 2 KH) D) fp32, and rounds the result into
// d_qkv_rounded (same shape, compute dtype).
struct RopeBackwardArgs {
  AttentionShape shape;
  float* dqkv;
  const RowPlace* places;
  const RopeTable* table;
  void* dqkv_rounded;
  int64_t rows;
};
void rope_backward(const RopeBackwardArgs& args);

}  // namespace rl
