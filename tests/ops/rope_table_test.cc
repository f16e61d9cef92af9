// Frequencies of every scaling against their definition, and the tables made of them.
#include "ops/rope_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl::testing {
namespace {

constexpr int64_t kDim = 64;
constexpr double kTwoPi = 2 * std::numbers::pi;

double plain(double theta, int64_t i) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / kDim);
}

TEST(RopeTable, LinearDividesEveryFrequency) {
  const auto f =
      rope_frequencies(kDim, {.theta = 1e4, .scaling = RopeScaling::kLinear, .factor = 4});
  ASSERT_EQ(f.size(), 32u);
  for (int64_t i = 0; i < 32; ++i) EXPECT_DOUBLE_EQ(f[i], plain(1e4, i) / 4);
}

TEST(RopeTable, Llama3DividesSlowFrequenciesKeepsFastOnesAndMixesThoseBetween) {
  const RopeSpec spec{.theta = 5e5,
                      .scaling = RopeScaling::kLlama3,
                      .factor = 8,
                      .original_positions = 8192,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4};
  const auto f = rope_frequencies(kDim, spec);
  int slow = 0, fast = 0, between = 0;
  for (int64_t i = 0; i < 32; ++i) {
    const double base = plain(5e5, i), wavelength = kTwoPi / base;
    if (wavelength > 8192.0 / 1) {
      EXPECT_DOUBLE_EQ(f[i], base / 8);
      ++slow;
    } else if (wavelength < 8192.0 / 4) {
      EXPECT_DOUBLE_EQ(f[i], base);
      ++fast;
    } else {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      EXPECT_NEAR(f[i], base * (smooth + (1 - smooth) / 8), 1e-15 * base);
      ++between;
    }
  }
  EXPECT_GT(slow, 5);
  EXPECT_GT(fast, 5);
  EXPECT_GT(between, 0);
}

TEST(RopeTable, YarnRampsFromKeptToDividedFrequencies) {
  RopeSpec spec{.theta = 1e4,
                .scaling = RopeScaling::kYarn,
                .factor = 4,
                .original_positions = 4096,
                .beta_fast = 32,
                .beta_slow = 1,
                .truncate = true,
                .attention_factor = 1};
  // Turns in 4096 positions of component i: 4096 / (2 pi) * theta^(-2i/D). 32 turns at i = 10.46, 1
  // turn at i = 22.51.
  const double low = 10, high = 23;
  const auto f = rope_frequencies(kDim, spec);
  for (int64_t i = 0; i < 32; ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(f[i], plain(1e4, i) * (1 - ramp + ramp / 4), 1e-15) << i;
  }
  spec.truncate = false;
  const auto exact = rope_frequencies(kDim, spec);
  EXPECT_LT(exact[11], f[11] * 1.05);
  EXPECT_GT(exact[11], f[11]);  // its ramp starts later
  EXPECT_DOUBLE_EQ(exact[23], f[23]);
}

TEST(RopeTable, ARampWithoutLengthIsAStep) {
  const auto f = rope_frequencies(kDim, {.theta = 1e4,
                                         .scaling = RopeScaling::kYarn,
                                         .factor = 4,
                                         .original_positions = 4096,
                                         .beta_fast = 32,
                                         .beta_slow = 32});
  for (int64_t i = 0; i < 32; ++i) EXPECT_DOUBLE_EQ(f[i], plain(1e4, i) / (i <= 10 ? 1 : 4)) << i;
}

TEST(RopeTable, TheAttentionFactorScalesCosAndSin) {
  const RopeSpec plain_spec{.theta = 1e4};
  RopeSpec longer = plain_spec;
  longer.attention_factor = yarn_attention_factor(16);
  EXPECT_DOUBLE_EQ(longer.attention_factor, 0.1 * std::log(16.0) + 1);
  EXPECT_EQ(yarn_attention_factor(1), 1.0);
  EXPECT_EQ(yarn_attention_factor(0.5), 1.0);
  const RopeTable a = make_rope_table(kDim, 50, plain_spec), b = make_rope_table(kDim, 50, longer);
  for (int64_t p = 0; p < 50; ++p) {
    for (int64_t i = 0; i < 32; ++i) {
      const double angle = static_cast<double>(p) * plain(1e4, i);
      EXPECT_EQ(a.cos[p * 32 + i], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(a.sin[p * 32 + i], static_cast<float>(std::sin(angle)));
      EXPECT_EQ(b.cos[p * 32 + i], static_cast<float>(std::cos(angle) * longer.attention_factor));
      EXPECT_EQ(b.sin[p * 32 + i], static_cast<float>(std::sin(angle) * longer.attention_factor));
    }
  }
}

}  // namespace
}  // namespace rl::testing
