// Sums that are kept in bf16, as gradients may be: each addition is computed in fp32 and rounded
// stochastically (rounding.h) with the lower 16 bits of the element's word. A sum that bf16
// represents is exact, whatever the word; a NaN stays one, and a sum too large becomes infinite.
#pragma once
#include <cstdint>

#include "algo/optimizers/rounding.h"

namespace rl {

// to[i] += from[i], then from[i] = 0. Element i is number index + i of those with one key.
struct RoundedSum {
  float* from;
  uint16_t* to;
  int64_t count;
  uint64_t index;
};
void add_rounded(const RoundingKey& key, const RoundedSum& a);

// to[i] = from[i], a bf16.
void widen_bf16(const uint16_t* from, float* to, int64_t count);

}  // namespace rl
