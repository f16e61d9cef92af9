// The sum of squares of flat arrays, and AdamW (algo/optimizers/adamw.h, the same operations in the
// same order, so the same bits).
//
// Order of the squares: chunks of kSquaresChunk floats, as kOptimizerChunk of ops/optimizer_ops.h.
// In double, thread t of kSquaresThreads adds the squares of elements t, t + kSquaresThreads, ...
// of its chunk; then lanes by exchanges at distances 16 to 1, and warps in order. The chunks' sums
// are added in order by the caller.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "algo/optimizers/adamw.h"

namespace rl::cuda {

inline constexpr int64_t kSquaresChunk = 65536;
inline constexpr int kSquaresThreads = 256;

struct SquaresParams {
  const float* values;
  int64_t count;
  double* chunk_sums;
};
void chunk_squares(cudaStream_t stream, const SquaresParams& params);

struct AdamwRangeParams {
  AdamwStep step;
  float *param, *m, *v;
  const float* grad;
  int64_t count;
};
void adamw(cudaStream_t stream, const AdamwRangeParams& params);

}  // namespace rl::cuda
