// fp32 to the compute dtype: element by element, and transposed, as weights are packed. No element
// depends on another.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"

namespace rl::cuda {

// to[i] = from[i] rounded.
struct RoundFloatsParams {
  const float* from;
  void* to;
  Dtype dtype;
  int64_t count;
};
void round_floats(cudaStream_t stream, const RoundFloatsParams& params);

// to (columns, rows) = from (rows, columns) transposed and rounded.
struct RoundTransposedParams {
  const float* from;
  void* to;
  Dtype dtype;
  int64_t rows, columns;
};
void round_transposed(cudaStream_t stream, const RoundTransposedParams& params);

}  // namespace rl::cuda
