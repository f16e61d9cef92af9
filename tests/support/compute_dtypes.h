// The compute dtypes that a test program covers, and the instruction set cap. A run under
// DNNL_MAX_CPU_ISA=AVX2 (rl_test_avx2) shows what processors without AVX-512 compute: oneDNN reads
// the cap itself, Highway's kernels are capped here before the first of them is chosen, and bf16
// cases are not made, since none could run.
#pragma once
#include <hwy/targets.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace rl::testing {

inline bool capped_at_avx2() {
  const char* cap = std::getenv("DNNL_MAX_CPU_ISA");
  return cap != nullptr && std::string_view(cap) == "AVX2";
}

inline std::vector<Dtype> compute_dtypes() {
  if (capped_at_avx2()) return {Dtype::kF32};
  return {Dtype::kF32, Dtype::kBf16};
}

namespace internal {
inline bool cap_highway() {
  if (capped_at_avx2()) hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  return true;
}
inline const bool kHighwayCapped = cap_highway();
}  // namespace internal

}  // namespace rl::testing
