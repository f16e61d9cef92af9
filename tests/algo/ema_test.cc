#include "algo/optimizers/ema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace rl {
namespace {

float wave(int64_t i, double period) {
  return static_cast<float>(std::sin(static_cast<double>(i) * period));
}

TEST(Ema, FollowsTheDoubleOracleOverSteps) {
  constexpr int64_t kSize = 1037;
  constexpr double kDecay = 0.97;
  std::vector<float> averages(kSize), weights(kSize);
  std::vector<double> oracle(kSize);
  for (int step = 0; step < 20; ++step) {
    for (int64_t i = 0; i < kSize; ++i) {
      weights[i] = wave(i, 0.1 * (step + 1));
      oracle[i] = kDecay * oracle[i] + (1 - kDecay) * static_cast<double>(weights[i]);
    }
    ema_update(ema_weight(kDecay), weights.data(), averages.data(), kSize);
  }
  // Three fp32 roundings a step, of numbers below 1.
  for (int64_t i = 0; i < kSize; ++i) EXPECT_NEAR(averages[i], oracle[i], 20 * 1.2e-7) << i;
}

TEST(Ema, ASplitChangesNoBit) {
  std::vector<float> weights(100), whole(100), parts(100);
  for (int64_t i = 0; i < 100; ++i) {
    weights[i] = wave(i, 0.3);
    whole[i] = parts[i] = wave(i, 0.7);
  }
  ema_update(ema_weight(0.9), weights.data(), whole.data(), 100);
  for (int64_t at = 0; at < 100; at += 7) {
    ema_update(ema_weight(0.9), weights.data() + at, parts.data() + at,
               std::min<int64_t>(7, 100 - at));
  }
  EXPECT_EQ(whole, parts);
}

}  // namespace
}  // namespace rl
