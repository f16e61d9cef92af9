// SwiGLU on the CPU: element-wise, so the order of work does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swiglu_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/contrib/math/math-inl.h>

#include "ops/simd-inl.h"
#include "ops/swiglu.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> z) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(z))));
}

template <typename T>
void forward(const SwigluArgs& a) {
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
      store(hn::Mul(hn::Mul(g, sigmoid(d, g)), u), d, h + i);
    });
  }
}

template <typename T>
void recompute(const SwigluRecomputeArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.ffn;
    T* h = static_cast<T*>(a.h) + r * a.ffn;
    for_each_lane(a.ffn, [&](auto d, int64_t i) {
      const auto g = load(d, gate + i);
      store(hn::Mul(hn::Mul(g, sigmoid(d, g)), load(d, gate + a.ffn + i)), d, h + i);
    });
  }
}

template <typename T>
void backward(const SwigluBackwardArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const T* gate = static_cast<const T*>(a.gate_up) + r * 2 * a.ffn + a.col0;
    T* d_gate = static_cast<T*>(a.d_gate_up) + r * 2 * a.ffn + a.col0;
    const float* dh = a.dh + r * a.cols;
    for_each_lane(a.cols, [&](auto d, int64_t i) {
      const auto g = load(d, gate + i);
      const auto u = load(d, gate + a.ffn + i);
      const auto s = sigmoid(d, g);
      const auto dhv = load(d, dh + i);
      const auto silu = hn::Mul(g, s);
      // d silu / d g = s * (1 + g * (1 - s))
      const auto slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(hn::Set(d, 1.0f), s), hn::Set(d, 1.0f)));
      store(hn::Mul(hn::Mul(dhv, u), slope), d, d_gate + i);
      store(hn::Mul(dhv, silu), d, d_gate + a.ffn + i);
    });
  }
}

void swiglu_target(const SwigluArgs& a) {
  if (a.dtype == Dtype::kF32) forward<float>(a);
  else forward<bf16>(a);
}
void swiglu_recompute_target(const SwigluRecomputeArgs& a) {
  if (a.dtype == Dtype::kF32) recompute<float>(a);
  else recompute<bf16>(a);
}
void swiglu_backward_target(const SwigluBackwardArgs& a) {
  if (a.dtype == Dtype::kF32) backward<float>(a);
  else backward<bf16>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(swiglu_target);
HWY_EXPORT(swiglu_recompute_target);
HWY_EXPORT(swiglu_backward_target);
void swiglu(const SwigluArgs& args) { HWY_DYNAMIC_DISPATCH(swiglu_target)(args); }
void swiglu_recompute(const SwigluRecomputeArgs& args) {
  HWY_DYNAMIC_DISPATCH(swiglu_recompute_target)(args);
}
void swiglu_backward(const SwigluBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward_target)(args);
}
}  // namespace rl
#endif
