// Conversion and sums on the CPU: element-wise, so the order of work does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/convert_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/highway.h>

#include <cstring>

#include "ops/convert.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

void round_target(const float* from, int64_t n, bf16* to) {
  for_each_lane(n, [&](auto d, int64_t i) { store(load(d, from + i), d, to + i); });
}

void sum_target(const float* a, const float* b, int64_t n, float* to) {
  for_each_lane(
      n, [&](auto d, int64_t i) { store(hn::Add(load(d, a + i), load(d, b + i)), d, to + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(round_target);
HWY_EXPORT(sum_target);

void round_elements(const float* from, int64_t n, Dtype dtype, void* to) {
  if (dtype == Dtype::kF32) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  HWY_DYNAMIC_DISPATCH(round_target)(from, n, static_cast<bf16*>(to));
}
void sum_elements(const float* a, const float* b, int64_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(sum_target)(a, b, n, to);
}
void add_elements(const float* from, int64_t n, float* to) { sum_elements(to, from, n, to); }
}  // namespace rl
#endif
