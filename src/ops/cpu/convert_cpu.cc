// Element-wise loops that the compiler vectorises.
#include <cstring>

#include "ops/convert.h"

namespace rl {

void round_elements(const float* from, int64_t n, Dtype dtype, void* to) {
  if (dtype == Dtype::kF32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  bf16* out = static_cast<bf16*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = to_bf16(from[i]);
}

void add_elements(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace rl
