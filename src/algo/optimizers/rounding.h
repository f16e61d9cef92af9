// Stochastic rounding of what is kept in fewer bits. A value is rounded to one of its two
// neighbours, up with the probability that makes the expectation the value itself, so that changes
// smaller than a step are not lost. The random words follow from key, step, stream and the index
// of an element alone (contract N5): no split of the work and no schedule changes a bit.
//
// Words are those of Philox4x32-10 (core/rng.h). The 256 elements of a block q share 64 of its
// outputs: element j takes word j / 64 of the output for the counter (64 q + j % 64, step, stream),
// so that a loop over 64 lanes has all words.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "algo/wide.h"
#include "core/rng.h"

namespace rl {

struct RoundingKey {
  std::array<uint32_t, 2> key;  // PhiloxKey::derive()
  uint32_t step;                // of the optimizer
  uint32_t stream;              // apart from other uses of the key in the step
};

constexpr int64_t kRoundingBlock = 256;  // elements

// The words of a block.
RL_WIDE_INLINE inline void rounding_words(const RoundingKey& k, uint64_t block, uint32_t* words) {
  constexpr int kLanes = kRoundingBlock / 4;
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int j = 0; j < kLanes; ++j) {
    const uint64_t counter = block * kLanes + static_cast<uint64_t>(j);
    c0[j] = static_cast<uint32_t>(counter);
    c1[j] = static_cast<uint32_t>(counter >> 32);
    c2[j] = k.step;
    c3[j] = k.stream;
  }
  uint32_t k0 = k.key[0], k1 = k.key[1];
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < kLanes; ++j) {
      const uint64_t a = uint64_t{0xD2511F53u} * c0[j], b = uint64_t{0xCD9E8D57u} * c2[j];
      c0[j] = static_cast<uint32_t>(b >> 32) ^ c1[j] ^ k0;
      c2[j] = static_cast<uint32_t>(a >> 32) ^ c3[j] ^ k1;
      c1[j] = static_cast<uint32_t>(b);
      c3[j] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int j = 0; j < kLanes; ++j) {
    words[j] = c0[j];
    words[kLanes + j] = c1[j];
    words[2 * kLanes + j] = c2[j];
    words[3 * kLanes + j] = c3[j];
  }
}

// Calls f(words, at, count) for the elements from `at` on, block by block: those of one call have
// their words in order. index: of the first element.
template <typename F>
RL_WIDE_INLINE inline void for_rounding_blocks(const RoundingKey& key, uint64_t index,
                                               int64_t count, F&& f) {
  uint32_t words[kRoundingBlock];
  for (int64_t at = 0; at < count;) {
    const uint64_t place = index + static_cast<uint64_t>(at);
    const auto skip = static_cast<int64_t>(place % kRoundingBlock);
    const int64_t part = std::min(kRoundingBlock - skip, count - at);
    rounding_words(key, place / kRoundingBlock, words);
    f(words + skip, at, part);
    at += part;
  }
}

// What a NaN becomes, which rounding might make infinite.
constexpr uint16_t kBf16Nan = 0x7fc0;

// x finite, with 16 random bits: the upper 16 bits of x are kept, and the lower ones are the
// probability of the next larger magnitude.
RL_WIDE_INLINE inline uint16_t round_bf16(float x, uint32_t random16) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + random16) >> 16);
}
RL_WIDE_INLINE inline float bf16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace rl
