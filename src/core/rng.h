// Counter-based random numbers (contract N5): a draw is a pure function of (seed, purpose, ordinal,
// slot, position), so no generator state exists and no schedule can change a draw. The generator is
// Philox4x32-10 of Salmon et al. 2011.
#pragma once
#include <array>
#include <cstdint>

namespace rl {

using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds of Philox on one 128-bit counter under a 64-bit key.
constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// What a random stream is for. Two purposes under one seed are independent streams. Numbers never
// change: a resumed checkpoint depends on them.
struct RngPurpose {
  static constexpr uint32_t kSampling = 1;
  static constexpr uint32_t kRequest =
      2;  // engine requests outside a run: ordinal is the request id
  static constexpr uint32_t kShuffle = 3;
  static constexpr uint32_t kInit = 4;
  static constexpr uint32_t kEval = 5;
  static constexpr uint32_t kClipCov = 6;   // ordinal, slot and position are those of a token
  static constexpr uint32_t kRounding = 7;  // of optimizer states: algo/optimizers/rounding.h
  static constexpr uint32_t kGradientRounding = 8;  // model/rounded_gradients.h
};

struct PhiloxKey {
  uint64_t seed;
  uint32_t purpose;

  // The seed fills Philox's whole key, so the purpose enters by deriving a new key.
  constexpr std::array<uint32_t, 2> derive() const {
    const std::array<uint32_t, 2> words = {static_cast<uint32_t>(seed),
                                           static_cast<uint32_t>(seed >> 32)};
    const PhiloxBlock block = philox4x32_10({purpose, 0, 0, 0x726c6b79u}, words);
    return {block[0], block[1]};
  }
};

// 64 random bits of one draw.
constexpr uint64_t random_bits(PhiloxKey key, uint64_t ordinal, uint32_t slot, uint32_t position) {
  const PhiloxBlock counter = {static_cast<uint32_t>(ordinal), static_cast<uint32_t>(ordinal >> 32),
                               slot, position};
  const PhiloxBlock block = philox4x32_10(counter, key.derive());
  return (uint64_t{block[1]} << 32) | block[0];
}

// Uniform in [0, 1) with 53 bits.
constexpr double uniform(PhiloxKey key, uint64_t ordinal, uint32_t slot, uint32_t position) {
  return static_cast<double>(random_bits(key, ordinal, slot, position) >> 11) * 0x1p-53;
}

}  // namespace rl
