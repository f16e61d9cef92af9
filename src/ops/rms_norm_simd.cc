// RMSNorm on the CPU, one row at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <cmath>

#include "ops/rms_norm.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

float inverse_rms(const float* x, int64_t n, float eps) {
  const float sum = sum_lanes(n, [&](auto d, int64_t i) {
    const auto v = load(d, x + i);
    return hn::Mul(v, v);
  });
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
}

template <typename T>
void norm_rows(const RmsNormArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.hidden;
    T* y = static_cast<T*>(a.y) + r * a.hidden;
    const float inv = inverse_rms(x, a.hidden, a.eps);
    for_each_lane(a.hidden, [&](auto d, int64_t i) {
      const auto v = hn::Mul(hn::Mul(load(d, x + i), hn::Set(d, inv)), load(d, a.w + i));
      store(v, d, y + i);
    });
  }
}

void rms_norm_target(const RmsNormArgs& a) {
  if (a.dtype == Dtype::kF32) norm_rows<float>(a);
  else norm_rows<bf16>(a);
}

void rms_norm_backward_target(const RmsNormBackwardArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.hidden;
    const float* dy = a.dy + r * a.hidden;
    float* dx = a.dx + r * a.hidden;
    const float inv = inverse_rms(x, a.hidden, a.eps);
    const float dot = sum_lanes(a.hidden, [&](auto d, int64_t i) {
      return hn::Mul(hn::Mul(load(d, dy + i), load(d, a.w + i)), load(d, x + i));
    });
    const float pull = inv * inv * inv * dot / static_cast<float>(a.hidden);
    for_each_lane(a.hidden, [&](auto d, int64_t i) {
      const auto xv = load(d, x + i);
      const auto dyv = load(d, dy + i);
      const auto inv_v = hn::Set(d, inv);
      const auto g = hn::Mul(hn::Mul(dyv, load(d, a.w + i)), inv_v);
      const auto step = hn::Sub(g, hn::Mul(xv, hn::Set(d, pull)));
      store(hn::Add(load(d, dx + i), step), d, dx + i);
      store(hn::MulAdd(hn::Mul(dyv, xv), inv_v, load(d, a.dw + i)), d, a.dw + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(rms_norm_target);
HWY_EXPORT(rms_norm_backward_target);
void rms_norm(const RmsNormArgs& args) { HWY_DYNAMIC_DISPATCH(rms_norm_target)(args); }
void rms_norm_backward(const RmsNormBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_target)(args);
}
}  // namespace rl
#endif
