// RMSNorm on the CPU, one row at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rms_norm_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include "ops/cpu/rms_norm-inl.h"
#include "ops/rms_norm.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

template <NormWeight kWeight, typename T>
void norm_rows(const RmsNormArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.hidden;
    T* y = static_cast<T*>(a.y) + r * a.hidden;
    const float inv = inverse_rms(x, a.hidden, a.eps);
    for_each_lane(a.hidden, [&](auto d, int64_t i) {
      const auto v =
          hn::Mul(hn::Mul(load(d, x + i), hn::Set(d, inv)), norm_weight<kWeight>(d, a.w + i));
      store(v, d, y + i);
    });
  }
}

template <NormWeight kWeight>
void norm_add_rows(const RmsNormAddArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.hidden;
    const float* residual = a.residual + r * a.hidden;
    float* y = a.y + r * a.hidden;
    const float inv = inverse_rms(x, a.hidden, a.eps);
    for_each_lane(a.hidden, [&](auto d, int64_t i) {
      const auto v =
          hn::Mul(hn::Mul(load(d, x + i), hn::Set(d, inv)), norm_weight<kWeight>(d, a.w + i));
      store(hn::Add(load(d, residual + i), v), d, y + i);
    });
  }
}

template <NormWeight kWeight>
void norm_backward_rows(const RmsNormBackwardArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t at = r * a.hidden;
    norm_backward_row<kWeight>(
        {a.x + at, a.w, a.dy + at, a.dx + at, a.dw, 1, a.hidden, a.eps, kWeight});
  }
}

template <NormWeight kWeight>
void norm_rows_of_type(const RmsNormArgs& a) {
  if (a.dtype == Dtype::kF32)
    norm_rows<kWeight, float>(a);
  else
    norm_rows<kWeight, bf16>(a);
}
void rms_norm_target(const RmsNormArgs& a) {
  if (a.weight == NormWeight::kPlain)
    norm_rows_of_type<NormWeight::kPlain>(a);
  else
    norm_rows_of_type<NormWeight::kMinusOne>(a);
}
void rms_norm_add_target(const RmsNormAddArgs& a) {
  if (a.weight == NormWeight::kPlain)
    norm_add_rows<NormWeight::kPlain>(a);
  else
    norm_add_rows<NormWeight::kMinusOne>(a);
}
void rms_norm_backward_target(const RmsNormBackwardArgs& a) {
  if (a.weight == NormWeight::kPlain)
    norm_backward_rows<NormWeight::kPlain>(a);
  else
    norm_backward_rows<NormWeight::kMinusOne>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(rms_norm_target);
HWY_EXPORT(rms_norm_add_target);
HWY_EXPORT(rms_norm_backward_target);
void rms_norm(const RmsNormArgs& args) { HWY_DYNAMIC_DISPATCH(rms_norm_target)(args); }
void rms_norm_add(const RmsNormAddArgs& args) { HWY_DYNAMIC_DISPATCH(rms_norm_add_target)(args); }
void rms_norm_backward(const RmsNormBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_target)(args);
}
}  // namespace rl
#endif
