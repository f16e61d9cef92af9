// Sums kept in bf16: neighbours, right on average, the same bits however the work is split.
#include "algo/optimizers/rounded_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace rl {
namespace {

RoundingKey key_of(uint32_t stream) {
  return {PhiloxKey{3, RngPurpose::kGradientRounding}.derive(), 1, stream};
}

std::vector<float> values_of(size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = std::sin(0.37f * static_cast<float>(i));
  return out;
}

TEST(RoundedSum, ASumIsANeighbourAndWhatWasAddedBecomesZero) {
  std::vector<float> from = values_of(1000);
  const std::vector<float> added = from;
  std::vector<uint16_t> to(1000, 0x3f80);  // 1
  add_rounded(key_of(0), {from.data(), to.data(), 1000, 0});
  int up = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const float sum = 1.0f + added[i], stored = bf16_value(to[i]);
    EXPECT_NEAR(stored, sum, std::abs(sum) / 128) << i;
    EXPECT_EQ(from[i], 0.0f);
    up += stored > sum;
  }
  EXPECT_GT(up, 400);
  EXPECT_LT(up, 600);
}

// 2000 additions of less than half a step would all be lost if sums were rounded to the nearest.
TEST(RoundedSum, SmallAdditionsAreRightOnAverage) {
  constexpr size_t kCount = 512;
  std::vector<uint16_t> to(kCount, 0x3f80);
  std::vector<float> from(kCount);
  for (uint32_t n = 0; n < 2000; ++n) {
    std::ranges::fill(from, 0x1p-11f);
    add_rounded(key_of(n), {from.data(), to.data(), kCount, 0});
  }
  double mean = 0;
  for (const uint16_t bits : to) mean += bf16_value(bits) / double{kCount};
  EXPECT_NEAR(mean, 1 + 2000.0 / 2048, 0.02);
}

TEST(RoundedSum, WhatBf16RepresentsIsExact) {
  std::vector<float> from = {1.5f, -2.0f, 0.0f, 0x1p-100f};
  std::vector<uint16_t> to(4, 0);
  for (uint32_t stream = 0; stream < 50; ++stream) {
    std::vector<float> some = from;
    std::ranges::fill(to, uint16_t{0});
    add_rounded(key_of(stream), {some.data(), to.data(), 4, 0});
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(bf16_value(to[i]), from[i]);
  }
}

TEST(RoundedSum, ANumberThatIsNoneStaysNone) {
  const uint32_t largest_nan = 0x7fffffffu;  // the one that GPUs make
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> from = {std::bit_cast<float>(largest_nan), std::nanf(""), inf, -inf,
                             std::numeric_limits<float>::max()};
  std::vector<uint16_t> to(5, 0);
  add_rounded(key_of(0), {from.data(), to.data(), 5, 0});
  EXPECT_TRUE(std::isnan(bf16_value(to[0])));
  EXPECT_TRUE(std::isnan(bf16_value(to[1])));
  EXPECT_EQ(bf16_value(to[2]), inf);
  EXPECT_EQ(bf16_value(to[3]), -inf);
  EXPECT_GE(bf16_value(to[4]), 0x1.fep127f);
}

TEST(RoundedSum, NoSplitChangesABit) {
  std::vector<float> from = values_of(1000);
  std::vector<uint16_t> whole(1000, 0x3dcd), parts(1000, 0x3dcd);
  std::vector<float> some = from;
  add_rounded(key_of(7), {some.data(), whole.data(), 1000, 77});
  some = from;
  for (const auto& [first, end] : {std::pair{0, 1}, {1, 200}, {200, 713}, {713, 1000}}) {
    add_rounded(key_of(7), {some.data() + first, parts.data() + first, end - first,
                            77 + static_cast<uint64_t>(first)});
  }
  EXPECT_EQ(whole, parts);
  some = from;
  std::vector<uint16_t> other(1000, 0x3dcd);
  add_rounded(key_of(8), {some.data(), other.data(), 1000, 77});
  EXPECT_NE(whole, other);
}

TEST(RoundedSum, WideningIsExact) {
  std::vector<uint16_t> from(300);
  for (size_t i = 0; i < 300; ++i) from[i] = static_cast<uint16_t>(i * 211);
  std::vector<float> to(300);
  widen_bf16(from.data(), to.data(), 300);
  for (size_t i = 0; i < 300; ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(to[i]), uint32_t{from[i]} << 16);
}

}  // namespace
}  // namespace rl
