// Token embedding rows: memory-bound loops that the compiler vectorises.
#include "ops/embedding.h"

namespace rl {

void embed(const float* table, const int32_t* ids, int64_t rows, int64_t hidden, Dtype dtype, float* x) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = table + ids[r] * hidden;
    float* to = x + r * hidden;
    for (int64_t c = 0; c < hidden; ++c) to[c] = round_to(dtype, from[c]);
  }
}

void embed_backward(const EmbedBackwardArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* from = a.dx + r * a.hidden + a.col0;
    float* to = a.grad + a.ids[r] * a.hidden + a.col0;
    for (int64_t c = 0; c < a.cols; ++c) to[c] += from[c];
  }
}

}  // namespace rl
