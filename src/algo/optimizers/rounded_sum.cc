// Loops over blocks of random words, each one loop of whole vectors.
#include "algo/optimizers/rounded_sum.h"

#include "algo/wide.h"

namespace rl {
namespace {

RL_WIDE_INLINE inline void add_part(const uint32_t* words, const RoundedSum& a, int64_t at,
                                    int64_t count) {
  float* __restrict from = a.from + at;
  uint16_t* __restrict to = a.to + at;
  for (int64_t i = 0; i < count; ++i) {
    const float sum = bf16_value(to[i]) + from[i];
    const uint16_t rounded = round_bf16(sum, words[i] & 0xffffu);
    to[i] = sum == sum ? rounded : kBf16Nan;
    from[i] = 0;
  }
}

}  // namespace

void add_rounded(const RoundingKey& key, const RoundedSum& a) {
  wide::run([&]() RL_WIDE_INLINE {
    for_rounding_blocks(key, a.index, a.count,
                        [&](const uint32_t* words, int64_t at, int64_t count)
                            RL_WIDE_INLINE { add_part(words, a, at, count); });
  });
}

void widen_bf16(const uint16_t* from, float* to, int64_t count) {
  wide::run([&]() RL_WIDE_INLINE {
    for (int64_t i = 0; i < count; ++i) to[i] = bf16_value(from[i]);
  });
}

}  // namespace rl
