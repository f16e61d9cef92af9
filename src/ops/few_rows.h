// y = x W for a few rows over weights in the packed form that oneDNN chose, with the weights of the
// next step asked for ahead of use: what decoding needs, where every product reads its weights from
// memory once. One kernel for bf16, one for fp32.
//
// Contract
// - W is packed by column blocks of 64. A step of the depth of a block is 256 bytes, 4 of each
// column: a pair of bf16,
//   or one fp32. FewRowsForm says how far it is to the next step and to the next block.
// - An element is summed along the depth in chunks: within one, a chain in fp32 of bf16 pair
// products or of fused
//   multiply-adds, and each chunk's sum is added to that of the chunks before it. This is oneDNN's
//   order for its packed form; matmul finds `chunk` by measurement, and the bits are the same
//   (tests compare them).
// - Chunks of bf16 are as long as `chunk`, but for the last. So are those of fp32 while two of them
// are left; what is
//   left then is one chunk, or two halves where it is longer than one.
// - A row's bits do not depend on the other rows, nor on the vectors of the processor.
// The kernel of bf16 is for processors with AVX-512 bf16 dot products alone; calling it elsewhere
// is a bug of librl.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace rl {

constexpr int64_t kFewRows = 64;
constexpr int64_t kFewRowsColumnBlock = 64;
constexpr int64_t kFewRowsColumnBytes = 4;  // of a column in a step of the depth
// Floats of scratch that a call needs.
constexpr int64_t kFewRowsScratch = kFewRows * kFewRowsColumnBlock;

// Bytes from a column block of a packed slice to the next, and from a step of its depth to the
// next.
struct FewRowsForm {
  int64_t block_bytes, step_bytes;
};
// bf16: blocks lie one behind another, each with its depth padded to whole 32s. fp32: rows of all
// columns of the slice.
constexpr FewRowsForm few_rows_form(Dtype dtype, int64_t depth, int64_t slice_cols) {
  if (dtype == Dtype::kF32)
    return {kFewRowsColumnBlock * kFewRowsColumnBytes, slice_cols * kFewRowsColumnBytes};
  return {(depth + 31) / 32 * 32 * 2 * kFewRowsColumnBlock,
          kFewRowsColumnBlock * kFewRowsColumnBytes};
}

// Weights from a column on, which may stand inside of a column block.
struct FewRowsWeights {
  const std::byte* first;
  FewRowsForm form;
};

struct FewRowsProduct {
  const void* x;  // [rows, depth]
  int64_t rows;   // 1..kFewRows
  int64_t depth;  // of bf16 even
  int64_t chunk;  // of bf16 even
  FewRowsWeights weights;
  int64_t cols;  // a multiple of 16; those of one column block where the first stands inside of it
  float* y;      // [rows, cols], rows y_stride apart
  int64_t y_stride;
  float* scratch;
  FewRowsWeights next;  // what this thread will probably read next
};
void few_rows_product_bf16(const FewRowsProduct& product);
void few_rows_product_f32(const FewRowsProduct& product);
inline void few_rows_product(Dtype dtype, const FewRowsProduct& product) {
  dtype == Dtype::kF32 ? few_rows_product_f32(product) : few_rows_product_bf16(product);
}

// The end of the chunk of fp32 that begins at `first`.
constexpr int64_t few_rows_chunk_end(int64_t first, int64_t depth, int64_t chunk) {
  const int64_t left = depth - first;
  if (left >= 2 * chunk) return first + chunk;
  return left > chunk ? first + (left + 1) / 2 : depth;
}

}  // namespace rl
