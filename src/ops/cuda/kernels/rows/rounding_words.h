// The key of the random words of stochastic rounding: RoundingKey of algo/optimizers/rounding.h.
#pragma once
#include <array>
#include <cstdint>

namespace rl::cuda {

inline constexpr int kWordBlock = 256;  // elements that share random words

struct RoundingWords {
  std::array<uint32_t, 2> key;
  uint32_t step, stream;
};

}  // namespace rl::cuda
