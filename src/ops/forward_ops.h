// The ops of the forward: each computes a whole packed batch of N rows. A model calls them through
// a Compute (ops/compute.h). Steps that follow a product are part of its op, because they run on
// its tiles while these are in the cache; which steps there are is fixed here.
//
// Contract
// - A row's bits depend on its own inputs alone, as the kernels' contracts say (ops/cpu/matmul.h,
//   rms_norm.h, rope_kv.h, attention.h, glu.h, embedding.h). How a device divides the rows among
//   its threads changes no bit.
// - The input of a product is readable up to padded_rows(rows) rows.
// - `next` is the matrix that is read after this op, or null: its first weights may be prefetched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/attention.h"
#include "ops/attention_work.h"
#include "ops/glu.h"
#include "ops/packed_matrix.h"
#include "ops/rms_norm.h"
#include "ops/rope_kv.h"
#include "ops/sequence_rows.h"

namespace rl {

// RMSNorm over rows of the residual (ops/rms_norm.h).
struct RowNorm {
  const float* weight;  // (C), or null: no norm
  float eps;
  NormWeight kind;
};
// The norm of the finished residual that the next product or the head reads.
struct NextNorm {
  RowNorm norm;
  std::byte* y;  // (N, C) compute dtype
};

// x = embedding rows of the ids; then the norm of x. A row whose id is below 0 is 0.
struct EmbedRowsArgs {
  const float* table;            // (V, C) fp32
  std::span<const int32_t> ids;  // (N), checked by the caller
  int64_t hidden;                // C
  float scale;                   // a value of the compute dtype
  float* x;                      // (N, C)
  NextNorm then;
};

// What project_qkv() does with the projection.
enum class QkvResult : uint8_t {
  kHeads,       // RoPE, and the write of keys and values; the projection is not stored
  kProjection,  // it is stored; attend() does the rest, row by row (decode)
  kBoth,        // RoPE and write, and it is stored too, for a backward through head norms
};
// q, k, v = x W^T, with bias or head norms and RoPE.
struct ProjectQkvArgs {
  const PackedMatrix& w;
  const std::byte* x;  // (N, C) compute dtype
  QkvResult result;
  float* qkv;        // (N, (H + 2 KH) D), or null with kHeads
  RopeKvArgs heads;  // of all rows; heads.qkv is qkv
  const PackedMatrix* next;
};

// If a shared prefix ends inside a block, copies that block's keys and values to each sequence that
// continues it. The prefix is complete before.
struct CopyPartialBlocksArgs {
  AttentionShape shape;
  std::byte* pool;  // this layer's blocks
  std::span<const SequenceRows> sequences;
};

// Attention of every row. All keys and values are written before, except with `heads`: then a row
// gets its RoPE, key and value here, so that its block is already in the cache, and no row reads
// what another row of the batch writes.
struct AttendArgs {
  AttentionArgs attention;
  const AttentionWork& work;       // how the rows are split into calls
  const RopeKvArgs* heads;         // of all rows, or null: project_qkv() did it
  std::byte* workspace = nullptr;  // attention_workspace_bytes()
};
inline uint64_t attention_workspace_bytes(const AttentionShape& shape, int num_threads) {
  return static_cast<uint64_t>(num_threads) *
         static_cast<uint64_t>(attention_scratch_floats(shape)) * sizeof(float);
}

// sum = residual + x W^T, or residual + norm(x W^T); then the norm of the sum.
struct ProjectResidualArgs {
  const PackedMatrix& w;
  const std::byte* x;  // compute dtype
  int64_t rows;
  const float* residual;  // (N, C)
  float* sum;             // (N, C), may be residual
  RowNorm norm;           // of the product (sandwich norm), or none
  float* product;         // (N, C), the product before its norm; null without one
  NextNorm then;
  const PackedMatrix* next;
};

// sum = residual + product, or residual + norm(product); then the norm of the sum. What
// project_residual() does once it has its product: the same bits for the same product.
struct AddResidualArgs {
  const float* product;   // (N, C)
  int64_t rows, hidden;   // N, C
  const float* residual;  // (N, C)
  float* sum;             // (N, C), may be residual
  RowNorm norm;           // of the product (sandwich norm), or none
  NextNorm then;
};

// h = act(gate) * up, with gate and up = x W^T.
struct ProjectGatedArgs {
  const PackedMatrix& w;  // gate columns, then up columns in each slice
  const std::byte* x;     // (N, C) compute dtype
  int64_t rows;
  std::byte* h;        // (N, F) compute dtype
  std::byte* gate_up;  // (N, 2F) rounded gate and up, or null
  Activation activation;
  const PackedMatrix* next;
};

}  // namespace rl
