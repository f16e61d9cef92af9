// Vector helpers shared by the Highway kernels; included once per target inside HWY_NAMESPACE
// blocks of *_simd.cc files. Loads widen bf16 to fp32, stores round to nearest even; every
// horizontal sum has one written order.
#if defined(RL_OPS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RL_OPS_CPU_SIMD_INL_H_
#undef RL_OPS_CPU_SIMD_INL_H_
#else
#define RL_OPS_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include "core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* HWY_RESTRICT p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16* HWY_RESTRICT p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(d, hn::ShiftLeft<16>(wide));
}

template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, float* HWY_RESTRICT p) {
  hn::StoreU(v, d, p);
}
// Finite values round to nearest even; a NaN keeps its quiet bit.
template <class D>
HWY_INLINE void store(hn::Vec<D> v, [[maybe_unused]] D d, bf16* HWY_RESTRICT p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto u = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto nan = hn::ShiftRight<16>(hn::Or(u, hn::Set(d32, 0x00400000u)));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto bits = hn::IfThenElse(is_nan, nan, rounded);
  hn::StoreU(hn::TruncateTo(d16, bits), d16, reinterpret_cast<uint16_t*>(p));
}

// v rounded to the element type T and widened again.
template <class D>
HWY_INLINE hn::Vec<D> round_as(D, hn::Vec<D> v, const float*) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> round_as(D d, hn::Vec<D> v, const bf16*) {
  const hn::RebindToUnsigned<D> d32;
  const auto u = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(d32, 1u));
  const auto rounded = hn::Add(u, hn::Add(odd, hn::Set(d32, 0x7fffu)));
  const auto kept = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), u, rounded);
  return hn::BitCast(d, hn::And(kept, hn::Set(d32, 0xffff0000u)));
}

// Calls f(d, i) over [0, n): whole vectors first, then single elements with the same per-element
// arithmetic.
template <class F>
HWY_INLINE void for_each_lane(int64_t n, F&& f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) f(one, i);
}

// Sum over i in [0, n) of f(d, i): lane l of four accumulators takes every (4 * lanes)-th element,
// the accumulators are added pairwise, lanes by the target's fixed tree, then the tail one by one.
template <class F>
HWY_INLINE float sum_lanes(int64_t n, F&& f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a0 = hn::Zero(d), a1 = hn::Zero(d), a2 = hn::Zero(d), a3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = hn::Add(a0, f(d, i));
    a1 = hn::Add(a1, f(d, i + lanes));
    a2 = hn::Add(a2, f(d, i + 2 * lanes));
    a3 = hn::Add(a3, f(d, i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a0 = hn::Add(a0, f(d, i));
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3))));
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) total += hn::GetLane(f(one, i));
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();
#endif
