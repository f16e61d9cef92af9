// Token embedding rows. Forward: x = table row rounded to the compute dtype, widened to fp32 (the residual stream).
// Backward: grad row += dx for each token, tokens in order; cut by columns so that tasks never share an element.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

// table is (V, C) fp32 master; ids are checked by the caller; x is (rows, C).
void embed(const float* table, const int32_t* ids, int64_t rows, int64_t hidden, Dtype dtype, float* x);

// Adds columns [col0, col0 + cols) of dx (rows, C) to the rows of grad (V, C).
struct EmbedBackwardArgs {
  const float* dx;
  const int32_t* ids;
  int64_t rows, hidden, col0, cols;
  float* grad;
};
void embed_backward(const EmbedBackwardArgs& args);

}  // namespace rl
