// Pair products against an oracle in double, that a row has its bits alone, and the portable form
// against the processor's.
#include "ops/cpu/gemm_bf16dot.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "support/random_values.h"

namespace rl::testing {
namespace {

class GemmBf16DotShapes
    : public ::testing::TestWithParam<std::tuple<int64_t /*k*/, int64_t /*cols*/>> {
 protected:
  static constexpr int64_t kRows = 31;
  const int64_t k_ = std::get<0>(GetParam()), cols_ = std::get<1>(GetParam()),
                lda_ = (k_ + 1) / 2 * 2;

  // a with zeros behind an odd k.
  std::vector<bf16> rows() const {
    const auto values = random_values(kRows * lda_, 1);
    std::vector<bf16> a(values.size());
    for (int64_t i = 0; i < kRows * lda_; ++i) a[i] = to_bf16(i % lda_ < k_ ? values[i] : 0.0f);
    return a;
  }
  // b with NaN behind its last row: nothing may read that as a number.
  std::vector<bf16> right() const {
    const auto values = random_values(k_ * cols_, 2);
    std::vector<bf16> b(values.size() + cols_, to_bf16(std::nanf("")));
    for (size_t i = 0; i < values.size(); ++i) b[i] = to_bf16(values[i]);
    return b;
  }
};

TEST_P(GemmBf16DotShapes, MatchTheOracle) {
  const auto a = rows(), b = right();
  const auto keep = random_values(kRows, 3), before = random_values(kRows * cols_, 4);
  std::vector<float> scaled(kRows * cols_, std::nanf("")), kept = before;
  gemm_bf16dot({a.data(), lda_, b.data(), scaled.data(), kRows, k_, cols_, 0.125f});
  gemm_bf16dot({a.data(), lda_, b.data(), kept.data(), kRows, k_, cols_, 1.0f, keep.data()});
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < cols_; ++j) {
      double want = 0;
      for (int64_t t = 0; t < k_; ++t)
        want += static_cast<double>(to_float(a[i * lda_ + t])) * to_float(b[t * cols_ + j]);
      const double tolerance =
          4e-7 * static_cast<double>(k_);  // of fp32 sums of terms of unit size
      ASSERT_NEAR(scaled[i * cols_ + j], want * 0.125, tolerance) << i << ", " << j;
      ASSERT_NEAR(kept[i * cols_ + j], want + static_cast<double>(keep[i]) * before[i * cols_ + j],
                  tolerance + 1e-6);
    }
  }
}

TEST_P(GemmBf16DotShapes, ARowHasItsBitsAloneAndZerosAddNothing) {
  const auto a = rows(), b = right();
  std::vector<float> all(kRows * cols_), alone(cols_);
  gemm_bf16dot({a.data(), lda_, b.data(), all.data(), kRows, k_, cols_, 0.3f});
  for (int64_t i = 0; i < kRows; ++i) {
    gemm_bf16dot({a.data() + i * lda_, lda_, b.data(), alone.data(), 1, k_, cols_, 0.3f});
    ASSERT_EQ(std::memcmp(alone.data(), &all[i * cols_], cols_ * sizeof(float)), 0) << "row " << i;
  }
  if (k_ < 3) return;
  // The last steps have zeros in a: the same as a shorter k, an odd one too.
  auto shorter = a;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t t = k_ - 2; t < lda_; ++t) shorter[i * lda_ + t] = to_bf16(0.0f);
  std::vector<float> padded(kRows * cols_), cut(kRows * cols_);
  gemm_bf16dot({shorter.data(), lda_, b.data(), padded.data(), kRows, k_, cols_, 0.3f});
  gemm_bf16dot({shorter.data(), lda_, b.data(), cut.data(), kRows, k_ - 2, cols_, 0.3f});
  EXPECT_EQ(std::memcmp(padded.data(), cut.data(), cut.size() * sizeof(float)), 0);
}

TEST_P(GemmBf16DotShapes, PairsMayStandApart) {
  const auto a = rows(), b = right();
  // Row i's pairs stand in column i of a (pairs, rows) array of pairs.
  std::vector<bf16> transposed(a.size());
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t t = 0; t < lda_; ++t)
      transposed[(t / 2 * kRows + i) * 2 + t % 2] = a[i * lda_ + t];
  }
  std::vector<float> want(kRows * cols_), have(kRows * cols_);
  gemm_bf16dot({a.data(), lda_, b.data(), want.data(), kRows, k_, cols_, 0.3f});
  gemm_bf16dot({transposed.data(), 2, b.data(), have.data(), kRows, k_, cols_, 0.3f, nullptr,
                nullptr, 0, 2 * kRows});
  EXPECT_EQ(std::memcmp(want.data(), have.data(), want.size() * sizeof(float)), 0);
}

TEST(GemmBf16Dot, ThePortableFormHasTheBitsOfTheProcessor) {
  if (!has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  constexpr int64_t kRows = 14, kK = 65, kCols = 112, kLda = 66;
  const auto from = random_values(kRows * kLda, 1), to = random_values(kK * kCols, 2);
  std::vector<bf16> a(from.size()), b(to.size());
  for (int64_t i = 0; i < kRows * kLda; ++i) {
    const float factor =
        i / kLda % 3 == 0 ? 0x1p-125f : 1.0f;  // some products leave the range of normal numbers
    a[i] = to_bf16(i % kLda < kK ? from[i] * factor : 0.0f);
  }
  for (size_t i = 0; i < b.size(); ++i) b[i] = to_bf16(to[i]);
  const auto keep = random_values(kRows, 3), before = random_values(kRows * kCols, 4);
  for (const int64_t k : {65, 64, 31, 2, 1}) {
    for (const float* factors : {keep.data(), static_cast<const float*>(nullptr)}) {
      auto native = before, portable = before;
      if (k % 2 != 0)
        for (int64_t i = 0; i < kRows; ++i) a[i * kLda + k] = to_bf16(0.0f);
      gemm_bf16dot({a.data(), kLda, b.data(), native.data(), kRows, k, kCols, 0.3f, factors});
      gemm_bf16dot_portable(
          {a.data(), kLda, b.data(), portable.data(), kRows, k, kCols, 0.3f, factors});
      EXPECT_EQ(std::memcmp(native.data(), portable.data(), native.size() * sizeof(float)), 0) << k;
    }
  }
}

// One pair against a column of equal pairs.
float one_pair(std::array<float, 2> a, std::array<float, 2> b) {
  const bf16 x[2] = {to_bf16(a[0]), to_bf16(a[1])};
  std::vector<bf16> y(32, to_bf16(b[0]));
  std::fill(y.begin() + 16, y.end(), to_bf16(b[1]));
  std::vector<float> c(16);
  gemm_bf16dot({x, 2, y.data(), c.data(), 1, 2, 16, 1.0f});
  return c[7];
}

TEST(GemmBf16Dot, AddsTheOddStepFirst) {
  // 2^30 + 1 is 2^30 in fp32: only the sum whose large terms meet first keeps the small one.
  const bf16 a[4] = {to_bf16(1.0f), to_bf16(0x1p30f), to_bf16(-0x1p30f), to_bf16(0.0f)};
  std::vector<bf16> ones(4 * 16, to_bf16(1.0f));
  std::vector<float> c(16);
  gemm_bf16dot({a, 4, ones.data(), c.data(), 1, 4, 16, 1.0f});
  EXPECT_EQ(c[0], 0.0f);  // 2^30, then the 1 is lost
  const bf16 swapped[4] = {to_bf16(-0x1p30f), to_bf16(0x1p30f), to_bf16(1.0f), to_bf16(0.0f)};
  gemm_bf16dot({swapped, 4, ones.data(), c.data(), 1, 4, 16, 1.0f});
  EXPECT_EQ(c[0], 1.0f);
  const bf16 late[4] = {to_bf16(0.0f), to_bf16(0x1p30f), to_bf16(1.0f), to_bf16(-0x1p30f)};
  gemm_bf16dot({late, 4, ones.data(), c.data(), 1, 4, 16, 1.0f});
  EXPECT_EQ(c[0], 1.0f);  // even first would lose the 1
}

TEST(GemmBf16Dot, TakesNumbersTooSmallToBeNormalForZero) {
  EXPECT_EQ(one_pair({0x1p-63f, 0.0f}, {0x1p-63f, 0.0f}), 0x1p-126f);
  EXPECT_EQ(one_pair({0x1p-63f, 0.0f}, {0x1p-64f, 0.0f}), 0.0f);               // the result
  EXPECT_EQ(one_pair({0x1p-127f, 0.0f}, {0x1p60f, 0.0f}), 0.0f);               // an argument
  EXPECT_EQ(one_pair({0x1p-63f, 0x1p-64f}, {0x1p-63f, 0x1p-63f}), 0x1p-126f);  // a sum on the way
}

TEST(PairRounding, IsToNearestEven) {
  auto values = random_values(64, 5);
  values[3] = 1.0f + 0x1p-8f;  // halfway, to the even one below
  values[4] = 1.0f + 0x3p-8f;  // halfway, to the even one above
  values[5] = -0x1p-127f;
  std::vector<bf16> rounded(64), portable(64);
  round_for_bf16dot(values.data(), 64, rounded.data());
  round_for_bf16dot_portable(values.data(), 64, portable.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const float want = i == 5 ? -0.0f : round_to(Dtype::kBf16, values[i]);
    EXPECT_EQ(std::bit_cast<uint32_t>(to_float(rounded[i])), std::bit_cast<uint32_t>(want)) << i;
    EXPECT_EQ(portable[i].bits, rounded[i].bits) << i;
  }
}

// Depths of pairs and of a last single step; columns of one, two, four vectors and of every kind of
// rest.
INSTANTIATE_TEST_SUITE_P(Shapes, GemmBf16DotShapes,
                         ::testing::Combine(::testing::Values(1, 2, 7, 16, 31, 64, 128, 300),
                                            ::testing::Values(16, 32, 48, 64, 112, 128)));

}  // namespace
}  // namespace rl::testing
