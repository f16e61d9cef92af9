// Token embedding rows. Forward: x = table row rounded to the compute dtype, times scale, the
// product rounded to the compute dtype again, widened to fp32 (the residual stream). scale is a
// value of the compute dtype; 1 changes no bit. A row whose id is below 0 is 0. Backward: grad row
// += dx * scale for each token, tokens in order; split by columns so that tasks never share an
// element.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

struct EmbedArgs {
  const float* table;  // (V, C) fp32 master
  const int32_t* ids;  // (rows), checked by the caller
  int64_t rows, hidden;
  float scale;
  Dtype dtype;
  float* x;  // (rows, C)
};
void embed(const EmbedArgs& args);

// Adds columns [col0, col0 + cols) of dx (rows, C) to the rows of grad (V, C).
struct EmbedBackwardArgs {
  const float* dx;
  const int32_t* ids;
  int64_t rows, hidden, col0, cols;
  float scale;
  float* grad;
};
void embed_backward(const EmbedBackwardArgs& args);

}  // namespace rl
