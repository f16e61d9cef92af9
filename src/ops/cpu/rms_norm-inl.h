// Row kernels of RMSNorm and its backward, shared by all kernels that norm, so that there is one
// arithmetic; included once per target inside HWY_NAMESPACE blocks of *_simd.cc files.
#if defined(RL_OPS_CPU_RMS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RL_OPS_CPU_RMS_NORM_INL_H_
#undef RL_OPS_CPU_RMS_NORM_INL_H_
#else
#define RL_OPS_CPU_RMS_NORM_INL_H_
#endif

#include <cmath>

#include "ops/cpu/simd-inl.h"
#include "ops/rms_norm.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

HWY_INLINE float inverse_rms(const float* x, int64_t n, float eps) {
  const float sum = sum_lanes(n, [&](auto d, int64_t i) {
    const auto v = load(d, x + i);
    return hn::Mul(v, v);
  });
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
}

template <NormWeight kWeight, class D>
HWY_INLINE hn::Vec<D> norm_weight(D d, const float* w) {
  if constexpr (kWeight == NormWeight::kPlain)
    return load(d, w);
  else
    return hn::Add(load(d, w), hn::Set(d, 1.0f));
}

// Processes the first row of a.
template <NormWeight kWeight>
HWY_INLINE void norm_backward_row(const RmsNormBackwardArgs& a) {
  const float inv = inverse_rms(a.x, a.hidden, a.eps);
  const float dot = sum_lanes(a.hidden, [&](auto d, int64_t i) {
    return hn::Mul(hn::Mul(load(d, a.dy + i), norm_weight<kWeight>(d, a.w + i)), load(d, a.x + i));
  });
  const float pull = inv * inv * inv * dot / static_cast<float>(a.hidden);
  for_each_lane(a.hidden, [&](auto d, int64_t i) {
    const auto xv = load(d, a.x + i);
    const auto dyv = load(d, a.dy + i);
    const auto inv_v = hn::Set(d, inv);
    const auto g = hn::Mul(hn::Mul(dyv, norm_weight<kWeight>(d, a.w + i)), inv_v);
    const auto step = hn::Sub(g, hn::Mul(xv, hn::Set(d, pull)));
    store(hn::Add(load(d, a.dx + i), step), d, a.dx + i);
    store(hn::MulAdd(hn::Mul(dyv, xv), inv_v, load(d, a.dw + i)), d, a.dw + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();
#endif
