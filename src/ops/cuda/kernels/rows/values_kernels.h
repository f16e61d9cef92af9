// Values of rows, v = h . w, and the gradient of w. Orders, as ops/head_ops.h fixes them:
// kValueLanes partial sums, lane j over columns j, j + kValueLanes, ... ascending, then the upper
// half of the lanes is added to the lower until one is left; a column of the gradient is summed in
// row order, onto what is there. Products are rounded before they are added.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"

namespace rl::cuda {

inline constexpr int kLanesOfValue = 16;

struct ValueRowsParams {
  const void* hidden;   // (N, width)
  const int32_t* rows;  // (count)
  const float* w;       // (width)
  Dtype dtype;          // of hidden
  int64_t count, width;
  float* values;  // (count)
};
void value_rows(cudaStream_t stream, const ValueRowsParams& params);

// grad += sum of d_value[i] * hidden[rows[i]].
struct ValueGradientParams {
  const void* hidden;    // (N, width)
  const int32_t* rows;   // (count)
  const float* d_value;  // (count)
  Dtype dtype;           // of hidden
  int64_t count, width;
  float* grad;  // (width)
};
void value_gradient(cudaStream_t stream, const ValueGradientParams& params);

}  // namespace rl::cuda
