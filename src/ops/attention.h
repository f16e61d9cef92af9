// Causal attention over paged keys and values: one kernel for decode, prefill and training, and its
// backward.
//
// Layout of a KV block (one layer, one kv head): K transposed, then V:
//   k_t (W, P): k_t[d * P + j] is component d of the key at token j of the block; v (P, W). Both of
//   dtype kv_dtype. The block `b` of kv head `g` starts at pool + (b * KH + g) *
//   kv_head_bytes(...). W is D rounded up to a multiple of 16. Components D..W-1 of what was
//   written are zero, those of q too: they add zeros to scores, and to columns of the output that
//   nobody stores.
//
// Contract
// - Row i at position p attends keys first_key(p)..p of its own sequence: from 0, or the last
// `window` ones. Which keys
//   these are follows from p and the window alone. Scores are q.k * scale.
// - Blocks are taken in order first_key(p)/P..p/P with one online-softmax update per block: running
// maximum, exp,
//   running sum (lane accumulators over the block's keys), and the value sum over keys in order.
// - Where q, k and v are bf16 and has_pair_products(), both products are chains of bf16 pair
// products in fp32
//   (pair_product.h), over d and over the block's keys; scores are scaled after, and the weights of
//   values, not those of the running sum, are rounded to bf16. Elsewhere q is scaled first, and
//   both are fused multiply-add chains in fp32, so they do not depend on vector width. Which of the
//   two follows from the types and the machine alone; the backward takes the same.
// - A row's bits follow from its own keys alone, whatever rows share the call (N1). Keys of its
// blocks outside
//   first_key(p)..p contribute exactly nothing.
// - A block that holds no key of a row leaves the row's running maximum, sum and values as they
// are, bit for bit: the
//   rows of a call walk the blocks of all of them, and a row takes no part in the others' blocks.
//   So the cut of a prefill into calls cannot change bits. A block that holds no key of any row is
//   not read.
// - out is rounded once to the compute dtype; lse = max + log(sum) in fp32.
// - D is even, at most kMaxHeadDim, P a multiple of 16; q heads H are a multiple of kv heads KH.
//
// Backward: P = exp(scores - lse), with scores as the forward makes them; dS = P (d_out v - d_out
// out), in fp32; then dv = sum of P d_out, dk = scale * sum of dS q, dq = scale * sum of dS k.
// - A call is a piece: up to kAttentionBackwardChunk rows against as many keys. It sums from zero:
// dq over keys in
//   order, dk and dv over pairs of row and query head in order. In fp32 these are fused
//   multiply-add chains. Of bf16 pairs there is one chain for each 48 pairs and block, and chains
//   are added in order; P and dS are rounded to bf16, and d_out, which is fp32, is taken for the
//   sum of two bf16, with a chain each.
// - What a piece gives is then added to what the pieces before it gave: their order is the
// caller's, who fixes it by
//   shapes alone (model/backward_work.h). Two pieces that share rows or keys must not run at once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace rl {

constexpr int64_t kMaxHeadDim = 1024;
// The width W of a head of D components in q and in KV blocks.
constexpr int64_t padded_head_dim(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

struct AttentionShape {
  int64_t heads, kv_heads, head_dim, block_size;
  Dtype dtype;             // of q and out: the compute dtype
  Dtype kv_dtype = dtype;  // of k and v
  int64_t group() const { return heads / kv_heads; }
  int64_t padded_dim() const { return padded_head_dim(head_dim); }
  // Bytes of one kv head's K and V in one block.
  uint64_t kv_head_bytes() const { return 2 * padded_dim() * block_size * dtype_bytes(kv_dtype); }
  uint64_t block_bytes() const { return kv_head_bytes() * kv_heads; }  // one layer of one block
  // Rows from first_row on and the query heads of one kv head are pairs: pair i = row * group() +
  // head. Its place in (N, H).
  int64_t place_of_pair(int64_t first_row, int64_t kv_head, int64_t i) const {
    return (first_row + i / group()) * heads + kv_head * group() + i % group();
  }
};

// Consecutive rows of one sequence.
struct AttentionRows {
  int64_t first_row;       // into q, out and lse
  int64_t rows;            // 1..kAttentionMaxRows in the forward
  int64_t first_position;  // of first_row in its sequence
  const int32_t* blocks;   // block ids covering positions 0..first_position + rows - 1
};
constexpr int64_t kAttentionMaxRows = 16;

// Which keys a layer's rows attend and how it scales their scores.
struct AttentionRule {
  float scale;         // of q.k
  int64_t window = 0;  // keys a row attends at most, its own included; 0: no bound
  int64_t first_key(int64_t position) const {
    return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
  }
};

// How queries, keys, values and weights are multiplied. kBest: as pairs where all are bf16 and the
// processor multiplies them, else in fp32. Tests name the others; kPairs is for bf16 alone.
enum class AttentionProducts : uint8_t { kBest, kFp32, kPairs };

struct AttentionArgs {
  AttentionShape shape;
  AttentionRule rule;
  const void* q;          // (N, H, W) compute dtype, after rope
  const std::byte* pool;  // this layer's blocks
  void* out;              // (N, H, D) compute dtype
  float* lse;             // (N, H) or null
  const std::byte* next =
      nullptr;  // the block this thread will probably read after the call, or null
  AttentionProducts products = AttentionProducts::kBest;
};
// Scratch floats a caller passes to attention() and attention_backward(): multiples of a cache
// line.
int64_t attention_scratch_floats(const AttentionShape& shape);
int64_t attention_backward_scratch_floats(const AttentionShape& shape);

// Key heads of a call, with the query heads that read them; a head does not depend on the others.
// Several of few rows may go together: as many as have the scratch of one of kAttentionMaxRows
// rows.
struct KvHeads {
  int64_t first, end;
};
constexpr int64_t most_kv_heads_together(int64_t rows) { return kAttentionMaxRows / rows; }
// Of attention_scratch_floats(shape), what one head of a call of so many rows takes: a multiple of
// a line.
int64_t attention_scratch_floats(const AttentionShape& shape, int64_t rows);
void attention(const AttentionArgs& args, const AttentionRows& rows, const KvHeads& heads,
               float* scratch);

// The newest row of a sequence.
struct SharedRow {
  int64_t position;
  const int32_t* blocks;  // block ids covering positions 0..position
};
// Single rows of several sequences that begin with the same blocks.
struct SharedAttentionRows {
  int64_t first_row;                // they stand side by side
  std::span<const SharedRow> rows;  // 1..kAttentionMaxRows
  int64_t shared_blocks;  // at the start of every table, whole and before every row's own position
};
// The bits of attention() for each row alone, with each shared block read once for all of them.
// Without a window.
void attention_shared(const AttentionArgs& args, const SharedAttentionRows& rows, int64_t kv_head,
                      float* scratch);

struct AttentionBackwardArgs {
  AttentionShape shape;
  AttentionRule rule;
  const void* q;  // (N, H, W)
  const std::byte* pool;
  const void* out;     // (N, H, D)
  const float* lse;    // (N, H)
  const float* d_out;  // (N, H, D) fp32
  float* dqkv;         // (N, (H + 2 KH) D): q, k, v gradients side by side
  AttentionProducts products = AttentionProducts::kBest;
};
// Rows of a sequence and keys they may attend, none of them after the last row. Rows, and keys, of
// long sequences are cut at multiples of this many positions, which are whole blocks.
constexpr int64_t kAttentionBackwardChunk = 128;
struct AttentionBackwardPiece {
  AttentionRows rows;          // 1..kAttentionBackwardChunk
  int64_t first_key, end_key;  // positions; all before `prefix`, or none
  int64_t prefix =
      0;  // positions of the sequence whose keys and values other rows of the batch have made
  float* d_prefix =
      nullptr;  // (prefix, 2 KH D): k and v gradients of the prefix; null where no key is of it
  bool overwrite = false;  // gradients are stored, not added to what is there
};
// One kv head: the columns of its query heads in the piece's rows, and of its key and value head in
// the rows of the piece's keys, or in d_prefix.
void attention_backward(const AttentionBackwardArgs& args, const AttentionBackwardPiece& piece,
                        int64_t kv_head, float* scratch);

}  // namespace rl
