// Runs a loop with the widest vector instructions the machine has, and provides the exponential
// that such loops use. The loop is one piece of source compiled for several instruction sets; none
// contracts or reorders, so all give the same bits. The callable and everything it calls must be
// RL_WIDE_INLINE, and must fix its order of summation by explicit lanes.
#pragma once
#include <bit>
#include <cstdint>

#define RL_WIDE_INLINE __attribute__((always_inline))

namespace rl::wide {

#if defined(__x86_64__)
template <typename F>
__attribute__((noinline, target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))) void
run_avx512(const F& f) {
  f();
}
template <typename F>
__attribute__((noinline, target("avx2"))) void run_avx2(const F& f) {
  f();
}
#endif

template <typename F>
void run(const F& f) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw")) {
    return run_avx512(f);
  }
  if (__builtin_cpu_supports("avx2")) return run_avx2(f);
#endif
  f();
}

// e^x in fp32 for x <= 88, within 2 units in the last place; 0 below -87 (and for -inf), exactly 1
// at 0, NaN for NaN. x = n ln 2 + r with |r| <= ln(2) / 2; e^r by its Taylor series to degree 6.
RL_WIDE_INLINE inline float exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // few bits, so n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = (p * r) * r + r;
  const uint32_t exponent =
      std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound) + 127;
  const float result = (p + 1.0f) * std::bit_cast<float>(exponent << 23);
  return x < -87.0f ? 0.0f : result;
}

}  // namespace rl::wide
