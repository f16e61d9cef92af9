// Memory-bound loops.
#include "algo/optimizers/scale_add.h"

#include "algo/wide.h"

namespace rl {

void scale_add(const ScaleAdd& a, int64_t count) {
  wide::run([&]() RL_WIDE_INLINE {
    float* __restrict y = a.y;
    const float* __restrict x = a.x;
    const float y_scale = a.y_scale, x_scale = a.x_scale;
    const int64_t n = count;
    if (x == nullptr) {
      for (int64_t i = 0; i < n; ++i) y[i] = y_scale * y[i];
    } else if (y_scale == 0) {
      for (int64_t i = 0; i < n; ++i) y[i] = x_scale * x[i];
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = y_scale * y[i] + x_scale * x[i];
    }
  });
}

}  // namespace rl
