// y = x W for a few bf16 rows over weights in the packed form that oneDNN chose, with the weights of the next step
// asked for ahead of use: what decoding needs, where every product reads its weights from memory once.
//
// Contract
// - W is packed by columns in 64s; a column block is depth pairs in order, 64 columns of 2 each (256 bytes).
// - An element is summed along the depth in chunks of `chunk`: within one, a chain of bf16 pair products in fp32, and
//   each chunk's sum is added to that of the chunks before it. This is oneDNN's order for its packed form; matmul finds
//   the chunk by measurement, and the bits are the same (tests compare them).
// - A row's bits do not depend on the other rows.
// Only for processors with AVX-512 bf16 dot products; calling it elsewhere is a bug of librl.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace rl {

constexpr int64_t kFewRows = 64;
constexpr int64_t kFewRowsColumnBlock = 64;
constexpr int64_t kFewRowsColumnBytes = 4;  // of a column in a depth pair
// Floats of scratch that a call needs.
constexpr int64_t kFewRowsScratch = kFewRows * kFewRowsColumnBlock;

struct FewRowsProduct {
  const bf16* x;  // [rows, depth]
  int64_t rows;   // 1..kFewRows
  int64_t depth;  // even
  int64_t chunk;
  const std::byte* weights;  // of the first column, which may stand inside of a column block
  int64_t cols;  // a multiple of 16; those of one column block where the first stands inside of it
  float* y;      // [rows, cols], rows y_stride apart
  int64_t y_stride;
  float* scratch;
  const std::byte* next_weights;  // what this thread will probably read next
};
void few_rows_product(const FewRowsProduct& product);

// Bytes of one column block; the depth is padded to whole blocks of 32.
constexpr int64_t few_rows_block_bytes(int64_t depth) { return (depth + 31) / 32 * 32 * 2 * kFewRowsColumnBlock; }

}  // namespace rl
