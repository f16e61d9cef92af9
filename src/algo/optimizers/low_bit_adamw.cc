// Loops over blocks, each a few loops of whole vectors.
#include "algo/optimizers/low_bit_adamw.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "algo/wide.h"

namespace rl {
namespace {

struct Moments {
  float m, v;
};

// The arithmetic of adamw_update.
RL_WIDE_INLINE inline Moments next_moments(const AdamwStep& c, Moments now, float grad) {
  const float g = c.grad_scale * grad;
  return {now.m + (g - now.m) * c.one_minus_beta1, now.v * c.beta2 + (c.one_minus_beta2 * g) * g};
}
RL_WIDE_INLINE inline float next_param(const AdamwStep& c, float p, Moments next) {
  const float denominator = std::sqrt(next.v) / c.sqrt_bias_correction2 + c.eps;
  return p * c.decay_factor + (c.minus_step_size * next.m) / denominator;
}

// count elements within one block of words, of which the first has place `skip`.
RL_WIDE_INLINE inline void update_bf16(const AdamwStep& c, const uint32_t* words,
                                       const AdamwBf16Arrays& a, int64_t at, int64_t count) {
  float* __restrict p = a.param + at;
  uint16_t* __restrict m = a.m + at;
  uint16_t* __restrict v = a.v + at;
  const float* __restrict grad = a.grad + at;
  for (int64_t i = 0; i < count; ++i) {
    const Moments next = next_moments(c, {bf16_value(m[i]), bf16_value(v[i])}, grad[i]);
    p[i] = next_param(c, p[i], next);
    m[i] = round_bf16(next.m, words[i] & 0xffffu);
    v[i] = round_bf16(next.v, words[i] >> 16);
  }
}

RL_WIDE_INLINE inline float m_value(float code) {
  const float t = code * (1.0f / 127.0f), s = t * t;
  return s * s;
}
RL_WIDE_INLINE inline float v_value(float code) {
  const float t = code * (1.0f / 255.0f), s = t * t, r = s * s;
  return r * r;
}

// The code below or above a share of the scale, whose real-valued code is c. Choices are made by
// arithmetic on comparisons: branches would keep the loop from being vectorised.
template <typename Value>
RL_WIDE_INLINE inline int32_t round_code(float share, float c, int32_t largest, uint32_t random16,
                                         const Value& value) {
  const auto whole = static_cast<int32_t>(c);
  const int32_t code = whole - static_cast<int32_t>(whole >= largest);
  const auto low = static_cast<float>(code);
  const float below = value(low), above = value(low + 1.0f);
  const float u = (static_cast<float>(static_cast<int32_t>(random16)) + 0.5f) * 0x1p-16f;
  return code + static_cast<int32_t>(u * (above - below) < share - below);
}

RL_WIDE_INLINE inline int8_t encode_m(float m, float inverse, uint32_t random16) {
  const float share = std::abs(m) * inverse;
  const int32_t code = round_code(share, 127.0f * std::sqrt(std::sqrt(share)), 127, random16,
                                  [](float c) RL_WIDE_INLINE { return m_value(c); });
  return static_cast<int8_t>(code * (1 - 2 * static_cast<int32_t>(m < 0)));
}

RL_WIDE_INLINE inline uint8_t encode_v(float v, float inverse, uint32_t random16) {
  const float share = v * inverse;
  const int32_t code = round_code(share, 255.0f * std::sqrt(std::sqrt(std::sqrt(share))), 255,
                                  random16, [](float c) RL_WIDE_INLINE { return v_value(c); });
  const int32_t least = 2 * static_cast<int32_t>(v > 0);
  return static_cast<uint8_t>(code + (least - code) * static_cast<int32_t>(code < least));
}

struct BlockMoments {
  float m[kInt8Block], v[kInt8Block];
};

// Largest |m| and v; a maximum has the same bits in every order.
RL_WIDE_INLINE inline Moments largest(const BlockMoments& b) {
  constexpr int64_t kLanes = 32;
  float m[kLanes] = {}, v[kLanes] = {};
  for (int64_t i = 0; i < kInt8Block; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      const float size = std::abs(b.m[i + j]), second = b.v[i + j];
      m[j] = size > m[j] ? size : m[j];
      v[j] = second > v[j] ? second : v[j];
    }
  }
  Moments most = {0, 0};
  for (int64_t j = 0; j < kLanes; ++j) {
    most = {m[j] > most.m ? m[j] : most.m, v[j] > most.v ? v[j] : most.v};
  }
  // Denormal ones have no finite inverse.
  return {most.m < FLT_MIN ? 0 : most.m, most.v < FLT_MIN ? 0 : most.v};
}

RL_WIDE_INLINE inline void decode_and_update(const AdamwStep& c, const AdamwInt8Arrays& a,
                                             int64_t first, int64_t count, BlockMoments& next) {
  const int64_t block = first / kInt8Block;
  float* __restrict p = a.param + first;
  const int8_t* __restrict m = a.m + first;
  const uint8_t* __restrict v = a.v + first;
  const float* __restrict grad = a.grad + first;
  const float m_scale = a.m_scales[block], v_scale = a.v_scales[block];
  for (int64_t i = 0; i < count; ++i) {
    const auto code = static_cast<float>(m[i]);
    const float share = m_value(code), second = v_value(static_cast<float>(v[i]));
    const Moments now = {m_scale * (code < 0 ? -share : share), v_scale * second};
    const Moments then = next_moments(c, now, grad[i]);
    p[i] = next_param(c, p[i], then);
    next.m[i] = then.m;
    next.v[i] = then.v;
  }
}

RL_WIDE_INLINE inline void encode(const BlockMoments& next, const Moments& scales,
                                  const uint32_t* words, const AdamwInt8Arrays& a, int64_t first,
                                  int64_t count) {
  int8_t* __restrict m = a.m + first;
  uint8_t* __restrict v = a.v + first;
  const float m_inverse = scales.m > 0 ? 1.0f / scales.m : 0.0f;
  const float v_inverse = scales.v > 0 ? 1.0f / scales.v : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    m[i] = encode_m(next.m[i], m_inverse, words[i] & 0xffffu);
    v[i] = encode_v(next.v[i], v_inverse, words[i] >> 16);
  }
}

RL_WIDE_INLINE inline void update_block(const AdamwStep& c, const RoundingKey& key,
                                        const AdamwInt8Arrays& a, int64_t block) {
  const int64_t first = block * kInt8Block, count = std::min(kInt8Block, a.count - first);
  BlockMoments next;
  if (count < kInt8Block) next = {};
  decode_and_update(c, a, first, count, next);
  const Moments scales = largest(next);
  a.m_scales[block] = scales.m;
  a.v_scales[block] = scales.v;
  uint32_t words[kInt8Block];
  rounding_words(key, a.first_block + static_cast<uint64_t>(block), words);
  encode(next, scales, words, a, first, count);
}

}  // namespace

void adamw_update_bf16(const AdamwStep& step, const RoundingKey& key, const AdamwBf16Arrays& a) {
  wide::run([&]() RL_WIDE_INLINE {
    const AdamwStep c = step;
    for_rounding_blocks(key, a.index, a.count,
                        [&](const uint32_t* words, int64_t at, int64_t count)
                            RL_WIDE_INLINE { update_bf16(c, words, a, at, count); });
  });
}

void adamw_update_int8(const AdamwStep& step, const RoundingKey& key, const AdamwInt8Arrays& a) {
  wide::run([&]() RL_WIDE_INLINE {
    const AdamwStep c = step;
    const int64_t blocks = num_int8_blocks(a.count);
    for (int64_t block = 0; block < blocks; ++block) update_block(c, key, a, block);
  });
}

}  // namespace rl
