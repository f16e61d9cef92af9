// A memory-bound loop.
#include "algo/optimizers/ema.h"

#include "algo/wide.h"

namespace rl {

float ema_weight(double decay) { return static_cast<float>(1 - decay); }

void ema_update(float weight, const float* weights, float* averages, int64_t count) {
  wide::run([&]() RL_WIDE_INLINE {
    const float* __restrict w = weights;
    float* __restrict a = averages;
    const float share = weight;
    const int64_t n = count;
    for (int64_t i = 0; i < n; ++i) a[i] = a[i] + share * (w[i] - a[i]);
  });
}

}  // namespace rl
