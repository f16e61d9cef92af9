// How many elements of each row of two arrays differ in a bit.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace rl::cuda {

struct RowDifferencesParams {
  const float *a, *b;  // (rows, width)
  int32_t* counts;     // (rows)
  int64_t rows, width;
};
void row_differences(cudaStream_t stream, const RowDifferencesParams& params);

}  // namespace rl::cuda
