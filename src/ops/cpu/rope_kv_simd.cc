// RoPE and KV writes on the CPU.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rope_kv_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <algorithm>
#include <cstring>

#include "ops/cpu/rms_norm-inl.h"
#include "ops/rope_kv.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin); direction -1 is the inverse. out may be x.
HWY_INLINE void rotate(const float* x, const float* cos, const float* sin, float direction,
                       int64_t half, float* out) {
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

// Norms one head in place.
template <NormWeight kWeight>
void norm_head(const float* w, float eps, int64_t dim, float* head) {
  const float inv = inverse_rms(head, dim, eps);
  for_each_lane(dim, [&](auto d, int64_t i) {
    const auto v = hn::Mul(load(d, head + i), hn::Set(d, inv));
    store(hn::Mul(v, norm_weight<kWeight>(d, w + i)), d, head + i);
  });
}

// The weight vector of the head-th head, and its index among the gradients: queries 0, keys 1.
struct HeadWeight {
  HeadWeight(const HeadNorm& n, const AttentionShape& s, int64_t head)
      : w(head < s.heads ? n.q : n.k), index(head < s.heads ? 0 : 1) {}
  const float* w;
  int64_t index;
};

// Replaces the gradient of a normed head by the gradient of its input.
void norm_head_backward(const RopeBackwardArgs& a, int64_t row, int64_t head) {
  const int64_t D = a.shape.head_dim,
                at = (row * (a.shape.heads + 2 * a.shape.kv_heads) + head) * D;
  const HeadWeight weight(*a.norm, a.shape, head);
  HWY_ALIGN float dx[kMaxHeadDim];
  std::fill_n(dx, D, 0.0f);
  const RmsNormBackwardArgs args{
      a.qkv + at, weight.w,    a.dqkv + at,   dx, a.d_norm + weight.index * D, 1,
      D,          a.norm->eps, a.norm->weight};
  if (a.norm->weight == NormWeight::kPlain)
    norm_backward_row<NormWeight::kPlain>(args);
  else
    norm_backward_row<NormWeight::kMinusOne>(args);
  std::copy_n(dx, D, a.dqkv + at);
}

HWY_INLINE void write_element(float v, float* to) { *to = v; }
HWY_INLINE void write_element(float v, bf16* to) { *to = to_bf16(v); }

// Applies bias, norm and rotation to head h of a row, where the model has them, into `head`.
void prepare_head(const RopeKvArgs& a, int64_t r, int64_t h, float* head) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, at = h * D;
  const float* x = a.qkv + r * a.stride + (h - a.first_head) * D;
  for_each_lane(D, [&](auto d, int64_t i) {
    const auto v = load(d, x + i);
    store(a.bias ? hn::Add(v, load(d, a.bias + at + i)) : v, d, head + i);
  });
  if (h >= s.heads + s.kv_heads) return;
  if (a.norm) {
    const HeadWeight weight(*a.norm, s, h);
    if (a.norm->weight == NormWeight::kPlain)
      norm_head<NormWeight::kPlain>(weight.w, a.norm->eps, D, head);
    else
      norm_head<NormWeight::kMinusOne>(weight.w, a.norm->eps, D, head);
  }
  const int64_t turn = a.places[r].position * a.table->half;
  rotate(head, a.table->cos.data() + turn, a.table->sin.data() + turn, 1.0f, D / 2, head);
}

// Writes head h of a row to q, or to its KV block.
template <typename T, typename K>
void rope_kv_head(const RopeKvArgs& a, int64_t r, int64_t h) {
  const AttentionShape& s = a.shape;
  const int64_t W = s.padded_dim(), P = s.block_size, j = a.places[r].position % P;
  HWY_ALIGN float head[kMaxHeadDim];
  prepare_head(a, r, h, head);
  std::fill_n(head + s.head_dim, W - s.head_dim, 0.0f);
  if (h < s.heads) return round_to_row(head, W, static_cast<T*>(a.q) + (r * s.heads + h) * W);
  const int64_t g = (h - s.heads) % s.kv_heads;
  K* block =
      reinterpret_cast<K*>(a.pool + (a.places[r].block * s.kv_heads + g) * s.kv_head_bytes());
  if (h >= s.heads + s.kv_heads) return round_to_row(head, W, block + W * P + j * W);
  for (int64_t i = 0; i < W; ++i) write_element(head[i], block + i * P + j);
}

template <typename T, typename K>
void rope_rows(const RopeKvArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t h = a.first_head; h < a.end_head; ++h) rope_kv_head<T, K>(a, r, h);
  }
}

void rope_and_write_kv_target(const RopeKvArgs& a) {
  const bool wide_kv = a.shape.kv_dtype == Dtype::kF32;
  if (a.shape.dtype == Dtype::kF32 && wide_kv)
    rope_rows<float, float>(a);
  else if (a.shape.dtype == Dtype::kF32)
    rope_rows<float, bf16>(a);
  else if (wide_kv)
    rope_rows<bf16, float>(a);
  else
    rope_rows<bf16, bf16>(a);
}

void rope_backward_target(const RopeBackwardArgs& a) {
  const AttentionShape& s = a.shape;
  const int64_t D = s.head_dim, width = (s.heads + 2 * s.kv_heads) * D;
  for (int64_t r = 0; r < a.rows; ++r) {
    float* x = a.dqkv + r * width;
    const float* cos = a.table->cos.data() + a.places[r].position * a.table->half;
    const float* sin = a.table->sin.data() + a.places[r].position * a.table->half;
    for (int64_t h = 0; h < s.heads + s.kv_heads; ++h) {
      rotate(x + h * D, cos, sin, -1.0f, D / 2, x + h * D);
      if (a.norm) norm_head_backward(a, r, h);
    }
    if (s.dtype == Dtype::kF32)
      round_to_row(x, width, static_cast<float*>(a.dqkv_rounded) + r * width);
    else
      round_to_row(x, width, static_cast<bf16*>(a.dqkv_rounded) + r * width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(rope_and_write_kv_target);
HWY_EXPORT(rope_backward_target);

void rope_and_write_kv(const RopeKvArgs& args) {
  HWY_DYNAMIC_DISPATCH(rope_and_write_kv_target)(args);
}
void rope_and_write_kv(const RopeKvArgs& args, int64_t kv_head) {
  const AttentionShape& s = args.shape;
  const int64_t key = s.heads + kv_head, value = key + s.kv_heads;
  const auto heads = [&](int64_t first, int64_t end) {
    RopeKvArgs own = args;
    own.qkv += first * s.head_dim;
    own.first_head = first;
    own.end_head = end;
    rope_and_write_kv(own);
  };
  heads(kv_head * s.group(), (kv_head + 1) * s.group());
  heads(key, key + 1);
  heads(value, value + 1);
}
void rope_backward(const RopeBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(rope_backward_target)(args);
}

void copy_kv(const CopyKvArgs& a) {
  const AttentionShape& s = a.shape;
  const int64_t W = s.padded_dim();
  const uint64_t item = dtype_bytes(s.kv_dtype), line = s.block_size * item;
  for (int64_t g = 0; g < s.kv_heads; ++g) {
    const std::byte* from = a.pool + (a.from * s.kv_heads + g) * s.kv_head_bytes();
    std::byte* to = a.pool + (a.to * s.kv_heads + g) * s.kv_head_bytes();
    for (int64_t i = 0; i < W; ++i) std::memcpy(to + i * line, from + i * line, a.tokens * item);
    std::memcpy(to + W * line, from + W * line, a.tokens * W * item);
  }
}
}  // namespace rl
#endif
