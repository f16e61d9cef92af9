// Causal attention over paged KV: one kernel for decode, prefill and training, and its backward.
//
// Layout of a KV block (one layer, one kv head): K transposed, then V, both of dtype kv_dtype:
//   k_t (W, P): k_t[d * P + j] is component d of the key at token j of the block
//   v (P, W)
// Block `b` of kv head `g` starts at pool + (b * KH + g) * kv_head_bytes(...). W is D rounded up to
// a multiple of 16. Components D..W-1 of everything written are zero, those of q too: they add
// zeros to scores, and to output columns that are never stored.
//
// Contract
// - Row i at position p attends keys first_key(p)..p of its own sequence: all from 0, or the last
//   `window`. The range depends on p and the window alone. Scores are q.k * scale.
// - Blocks are visited in order first_key(p)/P..p/P, with one online-softmax update per block:
//   running maximum, exp, running sum (lane accumulators over the block's keys), then the value sum
//   over keys in order.
// - If q, k and v are bf16 and has_bf16_dot(), both products are fp32 chains of bf16 pair
//   products (gemm_bf16dot.h), over d and over the block's keys. Scores are scaled afterwards;
//   weights are rounded to bf16 for the value sum, but not for the running sum. Otherwise q is
//   scaled first and both products are fp32 fused multiply-add chains, independent of the vector
//   width. The choice depends on types and machine alone; the backward makes the same one.
// - A row's bits depend on its own keys alone, whatever rows share the call (N1). Keys of its
//   blocks outside first_key(p)..p contribute exactly nothing.
// - A block that holds no key of a row leaves the row's running maximum, sum and values unchanged,
//   bit for bit: a call walks the blocks of all its rows, and each row skips the others' blocks. So
//   splitting a prefill into calls cannot change bits. A block that holds no key of any row is not
//   read.
// - out is rounded once to the compute dtype; lse = max + log(sum) in fp32.
// - A row may attend its keys in several calls, each with some runs of keys (AttentionRows::runs),
//   which are visited in their order; on a GPU each run is a call of its own, the last one first.
//   Within a call all is as above. Of a call's output o and lse l and those of the calls before, O
//   and L: with m = max(L, l), a = exp(L - m) and b = exp(l - m), O becomes (a O + b o) / (a + b)
//   and L becomes m + log(a + b), in fp32.
// - D is even, at most kMaxHeadDim, P a multiple of 16; q heads H are a multiple of kv heads KH.
//
// Backward: P = exp(scores - lse), with scores computed as in the forward; dS = P (d_out v - d_out
// out), in fp32; then dv = sum of P d_out, dk = scale * sum of dS q, dq = scale * sum of dS k.
// - A call is one piece: up to kAttentionBackwardChunk rows against as many keys. It sums from
//   zero: dq over keys in order, dk and dv over (row, query head) pairs in order. In fp32 these are
//   fused multiply-add chains. With bf16 pairs there is one chain per 48 pairs and block, and
//   chains are added in order; P and dS are rounded to bf16, and d_out, which is fp32, is split
//   into a sum of two bf16 with one chain each.
// - A piece's result is added to the results of the pieces before it. The caller fixes their order
//   by shapes alone (ops/backward_work.h). Pieces that share rows or keys must not run
//   concurrently.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "ops/sequence_rows.h"

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
  // Rows from first_row on and the query heads of one kv head form pairs: pair i = row * group() +
  // head. Returns the pair's index in (N, H).
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
  // The only keys of a call with AttentionArgs::partial, as far as the rows attend them. All that
  // a block holds besides them is finite.
  std::span<const KeyRun> runs = {};
};
constexpr int64_t kAttentionMaxRows = 16;

// Which keys a layer's rows attend and how it scales their scores.
struct AttentionRule {
  float scale;         // of q.k
  int64_t window = 0;  // most keys a row attends, its own included; 0: no limit
  int64_t first_key(int64_t position) const {
    return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
  }
};

// How queries, keys, values and weights are multiplied. kBest: with bf16 dot products if all are
// bf16 and the processor supports it, else in fp32. Tests choose the others; kBf16Dot requires
// bf16.
enum class AttentionProducts : uint8_t { kBest, kFp32, kBf16Dot };

struct AttentionArgs {
  AttentionShape shape;
  AttentionRule rule;
  const void* q;          // (N, H, W) compute dtype, after rope
  const std::byte* pool;  // this layer's blocks
  void* out;              // (N, H, D) compute dtype
  float* lse;             // (N, H) or null
  const std::byte* next =
      nullptr;  // prefetched: the block this thread will probably read next, or null
  AttentionProducts products = AttentionProducts::kBest;
  // (N, H, D) fp32, in place of out, of rows that attend their keys in several calls: what this
  // call and those before give. Null: one call has all keys.
  float* partial = nullptr;
  bool merges = false;  // there were calls before
};
// Scratch floats that attention() and attention_backward() need: multiples of a cache line.
int64_t attention_scratch_floats(const AttentionShape& shape);
int64_t attention_backward_scratch_floats(const AttentionShape& shape);

// KV heads of a call, with the query heads that read them; heads are independent. Several heads may
// share a call if their rows fit the scratch of one call of kAttentionMaxRows rows.
struct KvHeads {
  int64_t first, end;
};
constexpr int64_t max_kv_heads_per_call(int64_t rows) { return kAttentionMaxRows / rows; }
// The share of attention_scratch_floats(shape) that one head of a call of `rows` rows takes: a
// multiple of a cache line.
int64_t attention_scratch_floats(const AttentionShape& shape, int64_t rows);
void attention(const AttentionArgs& args, const AttentionRows& rows, const KvHeads& heads,
               float* scratch);

// The newest row of a sequence.
struct SharedRow {
  int64_t position;
  const int32_t* blocks;  // block ids covering positions 0..position
};
// One row each of several sequences that begin with the same blocks.
struct SharedAttentionRows {
  int64_t first_row;                // consecutive rows
  std::span<const SharedRow> rows;  // 1..kAttentionMaxRows
  int64_t shared_blocks;  // leading blocks of every table, full and before every row's own position
};
// Same bits as attention() for each row alone, but each shared block is read once for all rows. No
// window.
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
// Rows of one sequence and keys they may attend, none after the last row. Rows and keys of long
// sequences are split at multiples of this many positions, which are whole blocks.
constexpr int64_t kAttentionBackwardChunk = 128;
struct AttentionBackwardPiece {
  AttentionRows rows;          // 1..kAttentionBackwardChunk
  int64_t first_key, end_key;  // positions; all before `prefix`, or none
  int64_t prefix = 0;  // leading positions whose keys and values come from other rows of the batch
  float* d_prefix =
      nullptr;             // (., 2 KH D): k and v gradients of the prefix; null if no key is in it
  bool overwrite = false;  // store gradients instead of adding them
  int64_t first_sum = 0;   // the position whose gradients the first row of d_prefix has
  int64_t prefix_stride = 0;  // floats from row to row of d_prefix; 0: 2 KH D
};
// One kv head: writes the columns of its query heads in the piece's rows, and the columns of its
// key and value head in the rows of the piece's keys, or in d_prefix.
void attention_backward(const AttentionBackwardArgs& args, const AttentionBackwardPiece& piece,
                        int64_t kv_head, float* scratch);

}  // namespace rl
