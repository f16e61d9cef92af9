// Arithmetic on flat arrays of floats, element by element: y = a y + b x
// (algo/optimizers/scale_add.h), moving averages (algo/optimizers/ema.h), and exchange. The same
// operations as there, so the same bits. No element depends on another.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "algo/optimizers/scale_add.h"

namespace rl::cuda {

struct ScaleAddParams {
  ScaleAdd all;
  int64_t count;
};
void scale_add(cudaStream_t stream, const ScaleAddParams& params);

// averages = averages + weight * (weights - averages)
struct AverageParams {
  float weight;
  const float* weights;
  float* averages;
  int64_t count;
};
void average_floats(cudaStream_t stream, const AverageParams& params);

struct ExchangeParams {
  float *a, *b;
  int64_t count;
};
void exchange_floats(cudaStream_t stream, const ExchangeParams& params);

}  // namespace rl::cuda
