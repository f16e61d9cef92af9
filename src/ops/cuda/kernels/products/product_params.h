// What a matrix product reads and writes, for product_mma.h and product_fp32.h.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rl::cuda {

// y = x W^T, all row-major.
struct ProductParams {
  const std::byte* x;  // (rows, k) compute dtype
  const std::byte* w;  // (n, k) compute dtype
  float* y;            // (rows, n)
  int64_t rows, n, k;
};

// grad += dy^T x over the rows, all row-major.
struct GradientProductParams {
  const std::byte* dy;  // (rows, n) compute dtype, `dy_stride` elements from row to row
  const std::byte* x;   // (rows, k) compute dtype
  float* grad;          // (n, k)
  int64_t rows, n, k, dy_stride;
};
// Rows that a gradient sums before the sum is added to those of the rows before.
inline constexpr int64_t kGradientSumRows = 512;

}  // namespace rl::cuda
