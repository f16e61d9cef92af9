// Elements for themselves; blocks of 8-bit moments exchange their maxima.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/low_bit_adamw_kernels.h"
#include "ops/cuda/kernels/rows/rounding_bits.h"

namespace rl::cuda {
namespace {

constexpr float kSmallestNormal = 0x1p-126f;

struct Moments {
  float m, v;
};

RL_DEVICE Moments next_moments(const AdamwStep& c, Moments now, float grad) {
  const float g = c.grad_scale * grad;
  return {now.m + (g - now.m) * c.one_minus_beta1, now.v * c.beta2 + (c.one_minus_beta2 * g) * g};
}
RL_DEVICE float next_param(const AdamwStep& c, float p, Moments next) {
  const float denominator = sqrt_of(next.v) / c.sqrt_bias_correction2 + c.eps;
  return p * c.decay_factor + (c.minus_step_size * next.m) / denominator;
}

RL_KERNEL void adamw_bf16_kernel(AdamwBf16Params p) {
  for_each_element(p.count, [&](int64_t i) {
    const uint64_t place = p.index + static_cast<uint64_t>(i);
    const uint32_t word =
        word_of(p.rounding, place / kLowBitBlock, static_cast<int>(place % kLowBitBlock));
    const Moments now = {value_of_bf16(p.m[i]), value_of_bf16(p.v[i])};
    const Moments next = next_moments(p.step, now, p.grad[i]);
    p.param[i] = next_param(p.step, p.param[i], next);
    p.m[i] = rounded_bf16(next.m, word & 0xffffu);
    p.v[i] = rounded_bf16(next.v, word >> 16);
  });
}

// The share of the scale that a code stands for.
RL_DEVICE float m_value(float code) {
  const float t = code * (1.0f / 127.0f), s = t * t;
  return s * s;
}
RL_DEVICE float v_value(float code) {
  const float t = code * (1.0f / 255.0f), s = t * t, r = s * s;
  return r * r;
}

// The code below or above a share of the scale, whose real-valued code is c.
template <typename Value>
RL_DEVICE int round_code(float share, float c, int largest, uint32_t random16, const Value& value) {
  const int whole = static_cast<int>(c), code = whole >= largest ? whole - 1 : whole;
  const auto low = static_cast<float>(code);
  const float below = value(low), above = value(low + 1.0f);
  const float u = (static_cast<float>(static_cast<int32_t>(random16)) + 0.5f) * 0x1p-16f;
  return u * (above - below) < share - below ? code + 1 : code;
}

RL_DEVICE int8_t code_of_m(float m, float inverse, uint32_t random16) {
  const float share = (m < 0 ? -m : m) * inverse;
  const int code = round_code(share, 127.0f * sqrt_of(sqrt_of(share)), 127, random16,
                              [](float c) { return m_value(c); });
  return static_cast<int8_t>(m < 0 ? -code : code);
}
RL_DEVICE uint8_t code_of_v(float v, float inverse, uint32_t random16) {
  const float share = v * inverse;
  const int code = round_code(share, 255.0f * sqrt_of(sqrt_of(sqrt_of(share))), 255, random16,
                              [](float c) { return v_value(c); });
  const int least = v > 0 ? 2 : 0;
  return static_cast<uint8_t>(code < least ? least : code);
}

RL_DEVICE float larger(float a, float b) { return a > b ? a : b; }

// The largest of the block's values in every thread, or 0 if it is denormal and so has no finite
// inverse. `warps` has room for one value of each warp.
RL_DEVICE float largest_of_block(float value, float* warps) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = larger(value, shuffle_xor(value, distance));
  if (lane_index() == 0) warps[warp_index()] = value;
  sync_block();
  float most = 0;
  for (int warp = 0; warp < block_warps(); ++warp) most = larger(most, warps[warp]);
  return most < kSmallestNormal ? 0 : most;
}

RL_KERNEL void adamw_int8_kernel(AdamwInt8Params p) {
  const int64_t block = block_x(), i = block * kLowBitBlock + thread_index();
  const bool has_element = i < p.count;
  Moments next = {0, 0};
  if (has_element) {
    const auto code = static_cast<float>(p.m[i]);
    const float share = m_value(code), second = v_value(static_cast<float>(p.v[i]));
    const Moments now = {p.m_scales[block] * (code < 0 ? -share : share),
                         p.v_scales[block] * second};
    next = next_moments(p.step, now, p.grad[i]);
    p.param[i] = next_param(p.step, p.param[i], next);
  }
  const float m_scale = largest_of_block(next.m < 0 ? -next.m : next.m, shared_at<float>(0));
  const float v_scale =
      largest_of_block(next.v, shared_at<float>(kLowBitBlock / kLanes * sizeof(float)));
  if (thread_index() == 0) {
    p.m_scales[block] = m_scale;
    p.v_scales[block] = v_scale;
  }
  if (!has_element) return;
  const uint32_t word =
      word_of(p.rounding, p.first_block + static_cast<uint64_t>(block), thread_index());
  p.m[i] = code_of_m(next.m, m_scale > 0 ? 1.0f / m_scale : 0.0f, word & 0xffffu);
  p.v[i] = code_of_v(next.v, v_scale > 0 ? 1.0f / v_scale : 0.0f, word >> 16);
}

}  // namespace

void adamw_bf16(cudaStream_t stream, const AdamwBf16Params& params) {
  launch("adamw_bf16", adamw_bf16_kernel, element_blocks(params.count), stream, params);
}
void adamw_int8(cudaStream_t stream, const AdamwInt8Params& params) {
  const int64_t blocks = (params.count + kLowBitBlock - 1) / kLowBitBlock;
  launch("adamw_int8", adamw_int8_kernel,
         LaunchShape{blocks, kLowBitBlock, 2 * kLowBitBlock / kLanes * sizeof(float)}, stream,
         params);
}

}  // namespace rl::cuda
