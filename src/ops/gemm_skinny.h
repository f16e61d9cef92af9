// Skinny GEMM for decode, y = x W with few rows. It is memory bound: every weight is read from
// memory once, so the next weights are prefetched while it computes. W has the packed layout that
// oneDNN chose. One kernel for bf16, one for fp32.
//
// Contract
// - W is packed in column blocks of 64. One K step of a block is 256 bytes, 4 per column: a pair of
//   bf16, or one fp32. SkinnyLayout holds the distances to the next step and to the next block.
// - An element is summed along K in chunks. Within a chunk it is one fp32 chain of bf16 pair
//   products or of fused multiply-adds; each chunk's sum is added to the sum of the chunks before
//   it. This is oneDNN's order for its packed layout: matmul finds `chunk` by measurement, and the
//   bits are the same (tests compare them).
// - bf16 chunks have length `chunk`, except the last. So have fp32 chunks while at least two of
//   them are left; the rest is one chunk, or two halves if it is longer than one.
// - A row's bits depend neither on the other rows nor on the vector width.
// - The bf16 kernel needs AVX-512 bf16 dot products; calling it elsewhere is a bug in librl.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace rl {

constexpr int64_t kMaxSkinnyRows = 64;
constexpr int64_t kSkinnyColumnBlock = 64;
constexpr int64_t kSkinnyColumnBytes = 4;  // of one column in one K step
// Floats of scratch that a call needs.
constexpr int64_t kSkinnyScratchFloats = kMaxSkinnyRows * kSkinnyColumnBlock;

// Bytes between consecutive column blocks of a packed slice, and between consecutive K steps.
struct SkinnyLayout {
  int64_t block_bytes, step_bytes;
};
// bf16: column blocks are contiguous, each with K padded to a multiple of 32. fp32: row-major over
// all columns of the slice.
constexpr SkinnyLayout skinny_layout(Dtype dtype, int64_t k, int64_t slice_cols) {
  if (dtype == Dtype::kF32)
    return {kSkinnyColumnBlock * kSkinnyColumnBytes, slice_cols * kSkinnyColumnBytes};
  return {(k + 31) / 32 * 32 * 2 * kSkinnyColumnBlock, kSkinnyColumnBlock * kSkinnyColumnBytes};
}

// Weights from a given column on, which may lie inside a column block.
struct SkinnyWeights {
  const std::byte* first;
  SkinnyLayout layout;
};

struct GemmSkinnyArgs {
  const void* x;  // [rows, k]
  int64_t rows;   // 1..kMaxSkinnyRows
  int64_t k;      // K; even for bf16
  int64_t chunk;  // even for bf16
  SkinnyWeights weights;
  int64_t cols;  // a multiple of 16; within one column block if the first column lies inside it
  float* y;      // [rows, cols], rows y_stride apart
  int64_t y_stride;
  float* scratch;
  SkinnyWeights next;  // prefetched: what this thread will probably read next
};
void gemm_skinny_bf16(const GemmSkinnyArgs& product);
void gemm_skinny_f32(const GemmSkinnyArgs& product);
inline void gemm_skinny(Dtype dtype, const GemmSkinnyArgs& product) {
  dtype == Dtype::kF32 ? gemm_skinny_f32(product) : gemm_skinny_bf16(product);
}

// The end of the fp32 chunk that begins at `first`.
constexpr int64_t skinny_chunk_end(int64_t first, int64_t k, int64_t chunk) {
  const int64_t left = k - first;
  if (left >= 2 * chunk) return first + chunk;
  return left > chunk ? first + (left + 1) / 2 : k;
}

}  // namespace rl
