// Seeded inputs for numeric tests: magnitudes around one, both signs, exactly representable in bf16
// on request.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "core/dtype.h"

namespace rl::testing {

inline std::vector<float> random_values(int64_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(n);
  for (float& v : out) v = normal(rng);
  return out;
}

// The values as raw bytes in dtype; reading them back with element() returns what an op sees.
inline std::vector<std::byte> as_dtype(const std::vector<float>& values, Dtype dtype,
                                       int64_t padding = 0) {
  std::vector<std::byte> out((values.size() + padding) * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == Dtype::kF32)
      reinterpret_cast<float*>(out.data())[i] = values[i];
    else
      reinterpret_cast<bf16*>(out.data())[i] = to_bf16(values[i]);
  }
  return out;
}

inline float element(const void* data, Dtype dtype, int64_t i) {
  return dtype == Dtype::kF32 ? static_cast<const float*>(data)[i]
                              : to_float(static_cast<const bf16*>(data)[i]);
}

}  // namespace rl::testing
