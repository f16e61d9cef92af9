// Token embedding rows: memory-bound loops that the compiler vectorises.
#include <algorithm>

#include "ops/embedding.h"

namespace rl {

void embed(const EmbedArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* to = a.x + r * a.hidden;
    if (a.ids[r] < 0) {
      std::fill_n(to, a.hidden, 0.0f);
      continue;
    }
    const float* from = a.table + a.ids[r] * a.hidden;
    for (int64_t c = 0; c < a.hidden; ++c)
      to[c] = round_to(a.dtype, round_to(a.dtype, from[c]) * a.scale);
  }
}

void embed_backward(const EmbedBackwardArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* from = a.dx + r * a.hidden + a.col0;
    float* to = a.grad + a.ids[r] * a.hidden + a.col0;
    for (int64_t c = 0; c < a.cols; ++c) to[c] += from[c] * a.scale;
  }
}

}  // namespace rl
