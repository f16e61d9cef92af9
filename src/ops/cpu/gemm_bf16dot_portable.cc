// Pair products one number at a time, with the bits of VDPBF16PS and VCVTNEPS2BF16: for tests on
// processors that have neither.
#include <cmath>
#include <limits>

#include "core/error.h"
#include "ops/cpu/gemm_bf16dot.h"

namespace rl {
namespace {

constexpr float kSmallest = std::numeric_limits<float>::min();  // normal number

float flushed(float v) { return std::fabs(v) < kSmallest ? std::copysign(0.0f, v) : v; }

// a * b + c, rounded once. The result is zero if its value rounded to 24 bits with unbounded
// exponent would not reach kSmallest.
float add_product(float a, float b, float c) {
  const float sum = std::fma(a, b, c);
  if (std::fabs(sum) > kSmallest || sum == 0.0f || std::isnan(sum)) return sum;
  const double exact =
      std::fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c));
  const double rounds_up = kSmallest - 0x1p-151;
  return std::fabs(exact) < rounds_up ? std::copysign(0.0f, sum) : std::copysign(kSmallest, sum);
}

float sum_of_pairs(const GemmBf16DotArgs& p, int64_t row, int64_t col) {
  float sum = 0.0f;
  for (int64_t t = 0; t < p.k; t += 2) {
    const bf16* a = p.a + row * p.lda + t / 2 * p.step;
    const bf16* b = p.b + t * p.cols + col;
    const float odd = t + 1 < p.k ? flushed(to_float(b[p.cols])) : 0.0f;
    sum = add_product(flushed(to_float(a[1])), odd, sum);
    sum = add_product(flushed(to_float(a[0])), flushed(to_float(b[0])), sum);
  }
  return sum;
}

}  // namespace

void gemm_bf16dot_portable(const GemmBf16DotArgs& p) {
  check_gemm_bf16dot(p);
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.cols; ++j) {
      float& c = p.c[i * p.cols + j];
      const float sum = sum_of_pairs(p, i, j);
      c = p.keep ? std::fma(c, p.keep[i], sum) : sum * p.scale;
    }
  }
}

void round_for_bf16dot_portable(const float* from, int64_t n, bf16* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = to_bf16(flushed(from[i]));
}

}  // namespace rl
