// Element-wise conversion and accumulation between fp32 and the compute dtype.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

// to[i] = from[i] rounded to dtype.
void round_elements(const float* from, int64_t n, Dtype dtype, void* to);
// to[i] += from[i].
void add_elements(const float* from, int64_t n, float* to);
// to[i] = a[i] + b[i]; to may be one of them.
void sum_elements(const float* a, const float* b, int64_t n, float* to);

}  // namespace rl
