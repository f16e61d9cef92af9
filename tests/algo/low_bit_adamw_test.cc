// AdamW with moments in bf16 and in 8 bits, against fp32 and against the maps in double.
#include "algo/optimizers/low_bit_adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace rl {
namespace {

constexpr AdamwParams kParams{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
constexpr double kLr = 1e-3;

RoundingKey key_of(uint64_t seed, uint32_t step) {
  return {PhiloxKey{seed, RngPurpose::kRounding}.derive(), step, 0};
}

// Sizes from 1e-4 to 1e-1 within a block.
float gradient(int64_t i, int step) {
  const double size = std::pow(10.0, -1 - 3 * std::abs(std::sin(0.77 * static_cast<double>(i))));
  return static_cast<float>(size * std::sin(0.37 * static_cast<double>(i) + 0.11 * step));
}

double m_value(int8_t c) { return std::copysign(std::pow(c / 127.0, 4), c); }
double v_value(uint8_t u) { return std::pow(u / 255.0, 8); }

struct Arrays {
  std::vector<float> p, m, v, g, m_scales, v_scales;
  std::vector<uint16_t> m16, v16;
  std::vector<int8_t> m8;
  std::vector<uint8_t> v8;
  explicit Arrays(int64_t count) {
    const auto n = static_cast<size_t>(count), blocks = static_cast<size_t>(num_int8_blocks(count));
    for (auto* floats : {&p, &m, &v, &g}) floats->assign(n, 0);
    m16.assign(n, 0);
    v16.assign(n, 0);
    m8.assign(n, 0);
    v8.assign(n, 0);
    m_scales.assign(blocks, 0);
    v_scales.assign(blocks, 0);
    for (size_t i = 0; i < n; ++i)
      p[i] = static_cast<float>(std::sin(0.3 * static_cast<double>(i)));
  }
  int64_t count() const { return static_cast<int64_t>(p.size()); }
  void set_gradient(int step) {
    for (int64_t i = 0; i < count(); ++i) g[static_cast<size_t>(i)] = gradient(i, step);
  }
  void update_f32(const AdamwStep& step) { adamw_update(step, {p, m, v, g}); }
  AdamwBf16Arrays bf16(int64_t first, int64_t size) {
    return {p.data() + first,
            m16.data() + first,
            v16.data() + first,
            g.data() + first,
            size,
            static_cast<uint64_t>(first)};
  }
  AdamwInt8Arrays int8(int64_t block, int64_t size) {
    const int64_t first = block * kInt8Block;
    return {p.data() + first,
            m8.data() + first,
            m_scales.data() + block,
            v8.data() + first,
            v_scales.data() + block,
            g.data() + first,
            size,
            static_cast<uint64_t>(block)};
  }
};

AdamwStep step_of(int t) { return adamw_step(kParams, {kLr, t, 1}); }

TEST(Rounding, WordsAreThoseOfPhilox) {
  const RoundingKey key = key_of(7, 3);
  const uint64_t block = (uint64_t{1} << 33) + 5;
  uint32_t words[kRoundingBlock];
  rounding_words(key, block, words);
  for (const int64_t j : {0, 1, 63, 64, 130, 255}) {
    const uint64_t counter = block * 64 + static_cast<uint64_t>(j % 64);
    const PhiloxBlock expected = philox4x32_10(
        {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 3, 0}, key.key);
    EXPECT_EQ(words[j], expected[static_cast<size_t>(j / 64)]) << j;
  }
}

TEST(Rounding, ABf16IsANeighbourAndRightOnAverage) {
  const float x = std::bit_cast<float>(0x3f804000u);  // a quarter of the way to the next one
  const uint16_t below = 0x3f80;
  int up = 0;
  for (uint32_t r = 0; r < 65536; ++r) {
    const uint16_t rounded = round_bf16(x, r);
    ASSERT_TRUE(rounded == below || rounded == below + 1);
    up += rounded - below;
  }
  EXPECT_EQ(up, 65536 / 4);
  EXPECT_EQ(round_bf16(-x, 0), 0x8000 | below);
  for (const uint32_t r : {0u, 65535u}) EXPECT_EQ(round_bf16(1.5f, r), 0x3fc0);
}

// Moments of 0 have one form in every type, and the parameter sees them before they are rounded.
TEST(LowBitAdamw, TheFirstStepHasTheBitsOfFp32) {
  Arrays a(1000), b(1000), c(1000);
  for (Arrays* some : {&a, &b, &c}) some->set_gradient(1);
  a.update_f32(step_of(1));
  adamw_update_bf16(step_of(1), key_of(1, 1), b.bf16(0, 1000));
  adamw_update_int8(step_of(1), key_of(1, 1), c.int8(0, 1000));
  EXPECT_EQ(a.p, b.p);
  EXPECT_EQ(a.p, c.p);
}

TEST(LowBitAdamw, StoredMomentsAreNeighboursOfThoseOfFp32) {
  Arrays a(700), b(700), c(700);
  for (Arrays* some : {&a, &b, &c}) some->set_gradient(1);
  a.update_f32(step_of(1));
  adamw_update_bf16(step_of(1), key_of(1, 1), b.bf16(0, 700));
  adamw_update_int8(step_of(1), key_of(1, 1), c.int8(0, 700));
  for (size_t i = 0; i < 700; ++i) {
    EXPECT_NEAR(bf16_value(b.m16[i]), a.m[i], std::abs(a.m[i]) / 128) << i;
    EXPECT_NEAR(bf16_value(b.v16[i]), a.v[i], a.v[i] / 128) << i;
    const size_t block = i / 256, end = std::min<size_t>(700, 256 * (block + 1));
    float m_most = 0, v_most = 0;
    for (size_t k = 256 * block; k < end; ++k) {
      m_most = std::max(m_most, std::abs(a.m[k]));
      v_most = std::max(v_most, a.v[k]);
    }
    EXPECT_EQ(c.m_scales[block], m_most);
    EXPECT_EQ(c.v_scales[block], v_most);
    // Codes on both sides of the value, with a slack for fp32.
    const double m = a.m[i] / m_most, v = a.v[i] / v_most;
    const auto near_m = [&](int code) {
      return m_value(static_cast<int8_t>(std::clamp(code, -127, 127)));
    };
    const auto near_v = [&](int code) {
      return v_value(static_cast<uint8_t>(std::clamp(code, 0, 255)));
    };
    EXPECT_LE(near_m(c.m8[i] - 1), m + 1e-6) << i;
    EXPECT_GE(near_m(c.m8[i] + 1), m - 1e-6) << i;
    EXPECT_LE(near_v(c.v8[i] - 1), v + 1e-6) << i;
    EXPECT_GE(near_v(c.v8[i] + 1), v - 1e-6) << i;
    EXPECT_GE(c.v8[i], 2) << "v is above 0";
  }
}

// The mean over seeds is the fp32 moment; with nearest rounding it would be off by up to half a
// step, here 1.6% of the largest.
TEST(LowBitAdamw, StoredMomentsAreRightOnAverage) {
  constexpr int kSeeds = 2000;
  std::vector<double> m(256), v(256);
  Arrays a(256);
  a.set_gradient(1);
  a.update_f32(step_of(1));
  float m_most = 0, v_most = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Arrays c(256);
    c.set_gradient(1);
    adamw_update_int8(step_of(1), key_of(seed, 1), c.int8(0, 256));
    m_most = c.m_scales[0];
    v_most = c.v_scales[0];
    for (size_t i = 0; i < 256; ++i) {
      m[i] += m_value(c.m8[i]) / kSeeds;
      v[i] += v_value(c.v8[i]) / kSeeds;
    }
  }
  // A step is at most 3.2% of the scale; a mean of 2000 is within five deviations of half a step.
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_NEAR(m[i], a.m[i] / m_most, 5 * 0.016 / std::sqrt(kSeeds)) << i;
    EXPECT_NEAR(v[i], a.v[i] / v_most, 5 * 0.016 / std::sqrt(kSeeds)) << i;
  }
}

TEST(LowBitAdamw, ASplitChangesNoBit) {
  Arrays whole(2000), parts(2000);
  for (int t = 1; t <= 3; ++t) {
    for (Arrays* some : {&whole, &parts}) some->set_gradient(t);
    adamw_update_bf16(step_of(t), key_of(1, 1), whole.bf16(0, 2000));
    for (int64_t at = 0; at < 2000; at += 77) {
      adamw_update_bf16(step_of(t), key_of(1, 1), parts.bf16(at, std::min<int64_t>(77, 2000 - at)));
    }
    EXPECT_EQ(whole.p, parts.p);
    EXPECT_EQ(whole.m16, parts.m16);
    EXPECT_EQ(whole.v16, parts.v16);
  }
  Arrays whole8(2000), parts8(2000);
  for (int t = 1; t <= 3; ++t) {
    for (Arrays* some : {&whole8, &parts8}) some->set_gradient(t);
    adamw_update_int8(step_of(t), key_of(1, 1), whole8.int8(0, 2000));
    adamw_update_int8(step_of(t), key_of(1, 1), parts8.int8(0, 512));
    adamw_update_int8(step_of(t), key_of(1, 1), parts8.int8(2, 2000 - 512));
    EXPECT_EQ(whole8.p, parts8.p);
    EXPECT_EQ(whole8.m8, parts8.m8);
    EXPECT_EQ(whole8.v8, parts8.v8);
  }
}

TEST(LowBitAdamw, AnotherSeedStepOrStreamRoundsOtherwise) {
  const auto rounded = [](const RoundingKey& key) {
    Arrays a(256);
    a.set_gradient(1);
    adamw_update_bf16(step_of(1), key, a.bf16(0, 256));
    return a.m16;
  };
  RoundingKey other = key_of(1, 1);
  other.stream = 1;
  EXPECT_EQ(rounded(key_of(1, 1)), rounded(key_of(1, 1)));
  EXPECT_NE(rounded(key_of(1, 1)), rounded(key_of(2, 1)));
  EXPECT_NE(rounded(key_of(1, 1)), rounded(key_of(1, 2)));
  EXPECT_NE(rounded(key_of(1, 1)), rounded(other));
}

// Fifty steps move the parameters as fp32 does. In 8 bits gradients of three decades share a block
// here, and the smallest have few codes, yet all of them move by the learning rate.
TEST(LowBitAdamw, ManyStepsStayNearFp32) {
  Arrays a(1024), b(1024), c(1024);
  const std::vector<float> start = a.p;
  for (int t = 1; t <= 50; ++t) {
    for (Arrays* some : {&a, &b, &c}) some->set_gradient(t);
    a.update_f32(step_of(t));
    adamw_update_bf16(step_of(t), key_of(1, static_cast<uint32_t>(t)), b.bf16(0, 1024));
    adamw_update_int8(step_of(t), key_of(1, static_cast<uint32_t>(t)), c.int8(0, 1024));
  }
  const auto off = [&](const Arrays& some) {
    double difference = 0, way = 0;
    for (size_t i = 0; i < start.size(); ++i) {
      difference += std::pow(double{some.p[i]} - a.p[i], 2);
      way += std::pow(double{a.p[i]} - start[i], 2);
    }
    return std::sqrt(difference / way);
  };
  EXPECT_LT(off(b), 0.01);
  EXPECT_LT(off(c), 0.25);
  EXPECT_GT(off(c), 0.0);
}

// A second moment that never moves would be one rounded to the nearest code: 0.999 of it is nearer
// to itself than to the code below.
TEST(LowBitAdamw, ASecondMomentDecays) {
  Arrays a(256);
  a.set_gradient(1);
  const AdamwParams slow{.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0};
  adamw_update_int8(adamw_step(slow, {kLr, 1, 1}), key_of(1, 1), a.int8(0, 256));
  const auto sum = [&] {
    double total = 0;
    for (const uint8_t u : a.v8) total += v_value(u) * a.v_scales[0];
    return total;
  };
  const double before = sum();
  std::ranges::fill(a.g, 0.0f);
  for (int t = 2; t <= 201; ++t) {
    adamw_update_int8(adamw_step(slow, {kLr, t, 1}), key_of(1, static_cast<uint32_t>(t)),
                      a.int8(0, 256));
  }
  EXPECT_NEAR(sum() / before, std::pow(0.999, 200), 0.05);
}

}  // namespace
}  // namespace rl
