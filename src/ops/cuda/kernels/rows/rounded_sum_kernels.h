// Sums kept in bf16 (algo/optimizers/rounded_sum.h): the same operations and the same random words,
// so the same bits. No element depends on another.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/kernels/rows/rounding_words.h"

namespace rl::cuda {

// Row r of `from` (count, width) goes to row rows[r] of `to`, whose row 0 begins at element `index`
// of those that are rounded; null: to row r.
struct AddRoundedParams {
  RoundingWords rounding;
  float* from;
  uint16_t* to;
  uint64_t index;
  const int32_t* rows;
  int64_t count, width;
};
void add_rounded(cudaStream_t stream, const AddRoundedParams& params);

struct WidenParams {
  const uint16_t* from;
  float* to;
  int64_t count;
};
void widen_bf16(cudaStream_t stream, const WidenParams& params);

}  // namespace rl::cuda
