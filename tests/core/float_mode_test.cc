// The host's floating-point mode stays outside.
#include "core/float_mode.h"

#include <gtest/gtest.h>

#include <limits>

namespace rl {
namespace {

// At run time.
float divided(float a, float b) {
  volatile float numerator = a, denominator = b;
  return numerator / denominator;
}

TEST(FloatMode, RoundsToNearestInsideAndAsTheHostOutside) {
  const float nearest = divided(1, 3);
  std::fesetround(FE_UPWARD);
  const float upward = divided(-1, 3);
  float inside, opposite;
  int mode;
  {
    const ScopedFloatMode scope;
    inside = divided(1, 3);
    opposite = divided(-1, 3);
    mode = std::fegetround();
  }
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(inside, nearest);
  EXPECT_EQ(opposite, -nearest);
  EXPECT_NE(upward, -nearest);
  EXPECT_EQ(mode, FE_TONEAREST);
  EXPECT_EQ(after, FE_UPWARD);
  EXPECT_TRUE(has_default_float_mode());
}

#if defined(__SSE2__)
TEST(FloatMode, KeepsSubnormalNumbersInside) {
  constexpr unsigned kFlush = 0x8040;  // FTZ and DAZ
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlush);
  const float flushed = divided(std::numeric_limits<float>::min(), 2);
  float kept;
  {
    const ScopedFloatMode scope;
    kept = divided(std::numeric_limits<float>::min(), 2);
  }
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(flushed, 0);
  EXPECT_GT(kept, 0);
  EXPECT_EQ(after & kFlush, kFlush);
}
#endif

}  // namespace
}  // namespace rl
