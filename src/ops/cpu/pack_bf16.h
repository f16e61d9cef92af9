// Packs fp32 weights for the bf16 GEMMs: rounding and blocking in one pass over the weights. It
// writes the bytes that oneDNN's reorder writes (tests compare them), in less than half the time.
// Also packs and transposes the bf16 operands of weight gradients.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

// The weights of y = x W, W[K, n]. Element (i, j) is w[i * k_stride + j * n_stride]; one of the
// strides is 1.
struct Bf16PackArgs {
  const float* w;
  int64_t k, n, k_stride, n_stride;
  bf16* out;  // pack_bf16_elements(k, n)
};

// Column blocks of 64. A block has K padded to a multiple of 32, in pairs: 64 columns of a pair
// after another, the two elements of a column side by side. Padding is zero.
constexpr int64_t kBf16BlockColumns = 64, kBf16BlockRows = 32;
constexpr int64_t pack_bf16_elements(int64_t k, int64_t n) {
  return (k + kBf16BlockRows - 1) / kBf16BlockRows * kBf16BlockRows *
         ((n + kBf16BlockColumns - 1) / kBf16BlockColumns) * kBf16BlockColumns;
}

// Needs AVX-512 bf16, as the GEMMs do that read this form; calling it elsewhere is a bug in librl.
void pack_bf16(const Bf16PackArgs& args);

// Some columns of a matrix of bf16 rows that are `stride` elements apart; `rows` is a multiple of
// kBf16BlockRows.
struct Bf16Rows {
  const bf16* from;
  int64_t rows, columns, stride;
};
// The form that pack_bf16() writes of the rows as W: pack_bf16_elements(rows, columns). Needs
// AVX-512 bf16, as the next one.
void pack_bf16_rows(const Bf16Rows& args, bf16* out);
// out (columns, rows) = the transposed rows.
void transpose_bf16_rows(const Bf16Rows& args, bf16* out);

}  // namespace rl
