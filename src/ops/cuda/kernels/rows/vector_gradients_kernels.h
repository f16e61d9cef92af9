// Gradients of vectors: sums over rows. Order, as ops/backward_ops.h fixes it: rows in order within
// a chunk of kVectorGradientRows, from zero; then the chunks' sums are added to the gradient in
// order. A thread owns a column.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace rl::cuda {

inline constexpr int64_t kVectorGradientRows = 64;
constexpr int64_t num_vector_gradient_chunks(int64_t rows) {
  return (rows + kVectorGradientRows - 1) / kVectorGradientRows;
}

// partial[chunk, c] = sum of dy[row, c] over the chunk's rows.
struct ColumnSumsParams {
  const float* dy;  // rows `stride` floats apart
  int64_t stride, rows, width;
  float* partial;  // (chunks, width)
};
void column_sums(cudaStream_t stream, const ColumnSumsParams& params);

// The same of (dy * x) * inverse[row], by fused multiply-adds.
struct NormWeightSumsParams {
  const float* dy;       // (rows, width)
  const float* x;        // (rows, width)
  const float* inverse;  // (rows)
  int64_t rows, width;
  float* partial;  // (chunks, width)
};
void norm_weight_sums(cudaStream_t stream, const NormWeightSumsParams& params);

// The same for the norms of query heads and key heads: within a row heads are added in order. Head
// h of a row has the gradient and the input at column h D of its row.
struct HeadNormSumsParams {
  const float* dy;       // of the norms' outputs, rows `stride` floats apart
  const float* x;        // their inputs, likewise
  const float* inverse;  // (rows, H + KH)
  int64_t stride, rows, heads, kv_heads, head_dim;
  float* partial;  // (chunks, 2 D): queries, keys
};
void head_norm_sums(cudaStream_t stream, const HeadNormSumsParams& params);

// grad[c] += partial[0, c], then partial[1, c], ...
struct AddChunksParams {
  const float* partial;  // rows `stride` floats apart
  int64_t chunks, stride, width;
  float* grad;  // (width)
};
void add_chunks(cudaStream_t stream, const AddChunksParams& params);

}  // namespace rl::cuda
