// Stochastic rounding to bf16 on a device. An element's word is computed by its own thread, which
// takes one of the four words of a Philox output.
#pragma once
#include <bit>

#include "core/rng.h"
#include "device/cuda/lang/kernel.h"
#include "ops/cuda/kernels/rows/rounding_words.h"

namespace rl::cuda {

RL_DEVICE uint32_t word_of(const RoundingWords& r, uint64_t block, int element) {
  constexpr int kOutputs = kWordBlock / 4;
  const uint64_t counter = block * kOutputs + static_cast<uint64_t>(element % kOutputs);
  const PhiloxBlock words = philox4x32_10(
      {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), r.step, r.stream},
      r.key);
  return words[static_cast<size_t>(element / kOutputs)];
}

RL_DEVICE float value_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
RL_DEVICE uint16_t rounded_bf16(float x, uint32_t random16) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + random16) >> 16);
}

}  // namespace rl::cuda
