// RMSNorm over rows, alone and behind what makes the rows: an embedding or a residual's sum. The
// formulas and rounding points are those of ops/rms_norm.h and ops/embedding.h; sums over a row
// have the order of row_team.h. All kernels norm a row by one function, so their bits agree.
//
// The backward leaves 1 / rms of each row, from which norm_weight_gradient() of
// vector_gradients_kernels.h takes the gradient of the weights.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"
#include "ops/cuda/kernels/rows/norm_params.h"

namespace rl::cuda {

// y = norm(x); nothing without a norm.
struct NormRowsParams {
  const float* x;  // (rows, C)
  NormParams norm;
  void* y;      // (rows, C)
  Dtype dtype;  // of y
  int64_t rows, hidden;
};
void norm_rows(cudaStream_t stream, const NormRowsParams& params);

// x = table row of the id, rounded, scaled and rounded again, or 0 for an id below 0; then
// y = norm(x).
struct EmbedRowsParams {
  const float* table;  // (V, C)
  const int32_t* ids;  // (rows)
  float scale;
  float* x;  // (rows, C)
  NormParams norm;
  void* y;
  Dtype dtype;
  int64_t rows, hidden;
};
void embed_rows(cudaStream_t stream, const EmbedRowsParams& params);

// sum = residual + added, or residual + norm(added); then y = norm(sum).
struct AddNormRowsParams {
  const float* added;     // (rows, C)
  NormParams added_norm;  // of added, or none
  const float* residual;  // (rows, C)
  float* sum;             // (rows, C), may be residual
  NormParams norm;        // of the sum, or none
  void* y;
  Dtype dtype;
  int64_t rows, hidden;
};
void add_norm_rows(cudaStream_t stream, const AddNormRowsParams& params);

// dx += gradient of x; inverse[row] = 1 / rms of the row.
struct NormBackwardParams {
  const float* x;   // (rows, C)
  const float* dy;  // (rows, C)
  NormParams norm;
  float* dx;       // (rows, C)
  float* inverse;  // (rows)
  int64_t rows, hidden;
};
void norm_rows_backward(cudaStream_t stream, const NormBackwardParams& params);

}  // namespace rl::cuda
