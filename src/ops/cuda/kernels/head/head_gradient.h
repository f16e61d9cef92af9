// Gradients of some logits of a row, rounded to the compute dtype: the backward of ops/logprob.h.
// Every element is computed from its own logit and the row's statistics.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"
#include "ops/logprob.h"

namespace rl::cuda {

struct HeadGradientParams {
  const float* z;                // (rows, V)
  const RowStats* stats;         // (rows)
  const int32_t* ids;            // (rows)
  const float* d_logprob;        // (rows)
  const float* d_entropy;        // (rows)
  const float* inv_temperature;  // (rows)
  const float* more;             // (rows, V) added to d z, or null
  void* d_logits;                // (rows, count)
  Dtype dtype;                   // of d_logits
  int64_t rows, vocab;
  int64_t first, count;  // tokens
};
void head_gradient(cudaStream_t stream, const HeadGradientParams& params);

}  // namespace rl::cuda
