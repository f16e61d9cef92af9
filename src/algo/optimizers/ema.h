// The exponential moving average of weights (Polyak and Juditsky 1992, as in OpenRLHF's
// enable_ema), on fp32:
//
//   a = a + (1 - decay) * (w - a)
//
// Elements are independent: any split into spans gives the same bits.
#pragma once
#include <cstdint>

namespace rl {

// 1 - decay, computed in double and rounded once.
float ema_weight(double decay);

// weights and averages do not overlap.
void ema_update(float weight, const float* weights, float* averages, int64_t count);

}  // namespace rl
