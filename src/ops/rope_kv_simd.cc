// Rotary embedding and KV writes on the CPU.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope_kv_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <cmath>

#include "ops/rope_kv.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin); direction -1 turns back. out may be x.
HWY_INLINE void rotate(const float* x, const float* cos, const float* sin, float direction, int64_t half,
                       float* out) {
  for_each_lane(half, [&](auto d, int64_t i) {
    const auto a = load(d, x + i), b = load(d, x + half + i);
    const auto c = load(d, cos + i), s = hn::Mul(load(d, sin + i), hn::Set(d, direction));
    const auto low = hn::NegMulAdd(b, s, hn::Mul(a, c));
    const auto high = hn::MulAdd(a, s, hn::Mul(b, c));
    store(low, d, out + i);
    store(high, d, out + half + i);
  });
}

template <typename T>
void round_to_row(const float* from, int64_t n, T* to) {
  for_each_lane(n, [&](auto d, int64_t i) { store(load(d, from + i), d, to + i); });
}

HWY_INLINE void write_element(float v, float* to) { *to = v; }
HWY_INLINE void write_element(float v, bf16* to) { *to = to_bf16(v); }

template <typename T>
void rope_row(const RopeKvArgs& a, int64_t r) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, P = s.block_size, width = (s.heads + 2 * s.kv_heads) * D;
  const float* x = a.qkv + r * width;
  const RowPlace place = a.places[r];
  const float* cos = a.table->cos.data() + place.position * a.table->half;
  const float* sin = a.table->sin.data() + place.position * a.table->half;
  HWY_ALIGN float head[1024];
  T* q = static_cast<T*>(a.q) + r * s.heads * D;
  for (int64_t h = 0; h < s.heads + 2 * s.kv_heads; ++h) {
    for_each_lane(D, [&](auto d, int64_t i) {
      const auto v = load(d, x + h * D + i);
      store(a.bias ? hn::Add(v, load(d, a.bias + h * D + i)) : v, d, head + i);
    });
    if (h < s.heads + s.kv_heads) rotate(head, cos, sin, 1.0f, D / 2, head);
    if (h < s.heads) {
      round_to_row(head, D, q + h * D);
      continue;
    }
    const int64_t g = (h - s.heads) % s.kv_heads, j = place.position % P;
    T* block = reinterpret_cast<T*>(a.pool + (place.block * s.kv_heads + g) * s.kv_head_bytes());
    if (h < s.heads + s.kv_heads) {
      for (int64_t i = 0; i < D; ++i) write_element(head[i], block + i * P + j);
    } else {
      round_to_row(head, D, block + D * P + j * D);
    }
  }
}

void rope_and_write_kv_target(const RopeKvArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    if (a.shape.dtype == Dtype::kF32) rope_row<float>(a, r);
    else rope_row<bf16>(a, r);
  }
}

void rope_backward_target(const RopeBackwardArgs& a) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, width = (s.heads + 2 * s.kv_heads) * D;
  for (int64_t r = 0; r < a.rows; ++r) {
    float* x = a.dqkv + r * width;
    const float* cos = a.table->cos.data() + a.places[r].position * a.table->half;
    const float* sin = a.table->sin.data() + a.places[r].position * a.table->half;
    for (int64_t h = 0; h < s.heads + s.kv_heads; ++h) rotate(x + h * D, cos, sin, -1.0f, D / 2, x + h * D);
    if (s.dtype == Dtype::kF32) round_to_row(x, width, static_cast<float*>(a.dqkv_rounded) + r * width);
    else round_to_row(x, width, static_cast<bf16*>(a.dqkv_rounded) + r * width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(rope_and_write_kv_target);
HWY_EXPORT(rope_backward_target);

RopeTable make_rope_table(int64_t head_dim, int64_t positions, double theta) {
  RopeTable t;
  t.half = head_dim / 2;
  t.cos.resize(positions * t.half);
  t.sin.resize(positions * t.half);
  for (int64_t i = 0; i < t.half; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t p = 0; p < positions; ++p) {
      t.cos[p * t.half + i] = static_cast<float>(std::cos(frequency * static_cast<double>(p)));
      t.sin[p * t.half + i] = static_cast<float>(std::sin(frequency * static_cast<double>(p)));
    }
  }
  return t;
}
void rope_and_write_kv(const RopeKvArgs& args) { HWY_DYNAMIC_DISPATCH(rope_and_write_kv_target)(args); }
void rope_backward(const RopeBackwardArgs& args) { HWY_DYNAMIC_DISPATCH(rope_backward_target)(args); }
}  // namespace rl
#endif
