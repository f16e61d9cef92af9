// Gated linear units on the CPU: element-wise, so the order of work does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/glu_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/contrib/math/math-inl.h>

#include "ops/cpu/simd-inl.h"
#include "ops/glu.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> z) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(z))));
}

// act(z) = z * sigmoid(s(z)), and its slope = sigmoid + z * sigmoid * (1 - sigmoid) * s'(z).
struct Silu {
  template <class D>
  static HWY_INLINE hn::Vec<D> gate(D d, hn::Vec<D> z) {
    return sigmoid(d, z);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> z, hn::Vec<D> s) {
    return hn::Mul(s, hn::MulAdd(z, hn::Sub(hn::Set(d, 1.0f), s), hn::Set(d, 1.0f)));
  }
};

struct GeluTanh {
  static constexpr float kScale = 1.5957691216057308f;  // 2 sqrt(2/pi)
  static constexpr float kCube = 0.044715f;
  // exp(-s(z)); capped at 88, where the sigmoid is below 1e-36, because exp would overflow beyond.
  template <class D>
  static HWY_INLINE hn::Vec<D> exp_minus(D d, hn::Vec<D> z) {
    const auto inner = hn::Mul(z, hn::MulAdd(hn::Set(d, kCube), hn::Mul(z, z), hn::Set(d, 1.0f)));
    return hn::Exp(d, hn::Min(hn::Mul(inner, hn::Set(d, -kScale)), hn::Set(d, 88.0f)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> gate(D d, hn::Vec<D> z) {
    const auto one = hn::Set(d, 1.0f);
    return hn::Div(one, hn::Add(one, exp_minus(d, z)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> slope(D d, hn::Vec<D> z, hn::Vec<D> s) {
    const auto rest = hn::Mul(exp_minus(d, z), s);  // 1 - s without cancellation
    // Beyond 16 either s or rest is effectively 0; the clamp keeps the polynomial finite.
    const auto near = hn::Min(hn::Max(z, hn::Set(d, -16.0f)), hn::Set(d, 16.0f));
    const auto inner_slope =
        hn::MulAdd(hn::Set(d, 3 * kCube), hn::Mul(near, near), hn::Set(d, 1.0f));
    const auto step = hn::Mul(hn::Mul(near, rest), hn::Mul(inner_slope, hn::Set(d, kScale)));
    return hn::Mul(s, hn::Add(hn::Set(d, 1.0f), step));
  }
};

template <class Act, typename T>
void forward(const GluArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* tile = a.tile + r * 2 * a.cols;
    T* h = static_cast<T*>(a.h) + r * a.h_stride;
    T* gate = a.gate ? static_cast<T*>(a.gate) + r * a.gate_stride : nullptr;
    T* up = a.up ? static_cast<T*>(a.up) + r * a.gate_stride : nullptr;
    for_each_lane(a.cols, [&](auto d, int64_t i) {
      const auto g = round_as(d, load(d, tile + i), h);
      const auto u = round_as(d, load(d, tile + a.cols + i), h);
      if (gate) {
        store(g, d, gate + i);
        store(u, d, up + i);
      }
      store(hn::Mul(hn::Mul(g, Act::gate(d, g)), u), d, h + i);
    });
  }
}

template <class Act, typename T>
void recompute(const GluRecomputeArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.ffn;
    T* h = static_cast<T*>(a.h) + r * a.ffn;
    for_each_lane(a.ffn, [&](auto d, int64_t i) {
      const auto g = load(d, gate + i);
      store(hn::Mul(hn::Mul(g, Act::gate(d, g)), load(d, gate + a.ffn + i)), d, h + i);
    });
  }
}

template <class Act, typename T>
void backward(const GluBackwardArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.ffn + a.col0;
    T* d_gate = static_cast<T*>(a.d_gate_up) + r * 2 * a.ffn + a.col0;
    T* h = a.h ? static_cast<T*>(a.h) + r * a.ffn + a.col0 : nullptr;
    const float* dh = a.dh + r * a.cols;
    for_each_lane(a.cols, [&](auto d, int64_t i) {
      const auto g = load(d, gate + i);
      const auto u = load(d, gate + a.ffn + i);
      const auto s = Act::gate(d, g);
      const auto gated = hn::Mul(g, s);
      const auto dhv = load(d, dh + i);
      if (h) store(hn::Mul(gated, u), d, h + i);
      store(hn::Mul(hn::Mul(dhv, u), Act::slope(d, g, s)), d, d_gate + i);
      store(hn::Mul(dhv, gated), d, d_gate + a.ffn + i);
    });
  }
}

template <class Act>
void forward_of_type(const GluArgs& a) {
  if (a.dtype == Dtype::kF32)
    forward<Act, float>(a);
  else
    forward<Act, bf16>(a);
}
template <class Act>
void recompute_of_type(const GluRecomputeArgs& a) {
  if (a.dtype == Dtype::kF32)
    recompute<Act, float>(a);
  else
    recompute<Act, bf16>(a);
}
template <class Act>
void backward_of_type(const GluBackwardArgs& a) {
  if (a.dtype == Dtype::kF32)
    backward<Act, float>(a);
  else
    backward<Act, bf16>(a);
}

void glu_target(const GluArgs& a) {
  if (a.activation == Activation::kSilu)
    forward_of_type<Silu>(a);
  else
    forward_of_type<GeluTanh>(a);
}
void glu_recompute_target(const GluRecomputeArgs& a) {
  if (a.activation == Activation::kSilu)
    recompute_of_type<Silu>(a);
  else
    recompute_of_type<GeluTanh>(a);
}
void glu_backward_target(const GluBackwardArgs& a) {
  if (a.activation == Activation::kSilu)
    backward_of_type<Silu>(a);
  else
    backward_of_type<GeluTanh>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(glu_target);
HWY_EXPORT(glu_recompute_target);
HWY_EXPORT(glu_backward_target);
void glu(const GluArgs& args) { HWY_DYNAMIC_DISPATCH(glu_target)(args); }
void glu_recompute(const GluRecomputeArgs& args) {
  HWY_DYNAMIC_DISPATCH(glu_recompute_target)(args);
}
void glu_backward(const GluBackwardArgs& args) { HWY_DYNAMIC_DISPATCH(glu_backward_target)(args); }
}  // namespace rl
#endif
