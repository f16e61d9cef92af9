// Pair products against an oracle in double, and that a row has its bits alone.
#include "ops/pair_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/random_values.h"

namespace rl::testing {
namespace {

class PairProducts : public ::testing::TestWithParam<std::tuple<int64_t /*depth*/, int64_t /*cols*/>> {
 protected:
  void SetUp() override {
    if (!has_pair_products()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  static constexpr int64_t kRows = 31;
  const int64_t depth_ = std::get<0>(GetParam()), cols_ = std::get<1>(GetParam()), lda_ = (depth_ + 1) / 2 * 2;

  // a with zeros behind an odd depth.
  std::vector<bf16> rows() const {
    const auto values = random_values(kRows * lda_, 1);
    std::vector<bf16> a(values.size());
    for (int64_t i = 0; i < kRows * lda_; ++i) a[i] = to_bf16(i % lda_ < depth_ ? values[i] : 0.0f);
    return a;
  }
  // b with NaN behind its last row: nothing may read that as a number.
  std::vector<bf16> depths() const {
    const auto values = random_values(depth_ * cols_, 2);
    std::vector<bf16> b(values.size() + cols_, to_bf16(std::nanf("")));
    for (size_t i = 0; i < values.size(); ++i) b[i] = to_bf16(values[i]);
    return b;
  }
};

TEST_P(PairProducts, MatchTheOracle) {
  const auto a = rows(), b = depths();
  const auto keep = random_values(kRows, 3), before = random_values(kRows * cols_, 4);
  std::vector<float> scaled(kRows * cols_, std::nanf("")), kept = before;
  pair_product({a.data(), lda_, b.data(), scaled.data(), kRows, depth_, cols_, 0.125f});
  pair_product({a.data(), lda_, b.data(), kept.data(), kRows, depth_, cols_, 1.0f, keep.data()});
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < cols_; ++j) {
      double want = 0;
      for (int64_t t = 0; t < depth_; ++t)
        want += static_cast<double>(to_float(a[i * lda_ + t])) * to_float(b[t * cols_ + j]);
      const double tolerance = 4e-7 * static_cast<double>(depth_);  // of fp32 sums of terms of unit size
      ASSERT_NEAR(scaled[i * cols_ + j], want * 0.125, tolerance) << i << ", " << j;
      ASSERT_NEAR(kept[i * cols_ + j], want + static_cast<double>(keep[i]) * before[i * cols_ + j], tolerance + 1e-6);
    }
  }
}

TEST_P(PairProducts, ARowHasItsBitsAloneAndZerosAddNothing) {
  const auto a = rows(), b = depths();
  std::vector<float> all(kRows * cols_), alone(cols_);
  pair_product({a.data(), lda_, b.data(), all.data(), kRows, depth_, cols_, 0.3f});
  for (int64_t i = 0; i < kRows; ++i) {
    pair_product({a.data() + i * lda_, lda_, b.data(), alone.data(), 1, depth_, cols_, 0.3f});
    ASSERT_EQ(std::memcmp(alone.data(), &all[i * cols_], cols_ * sizeof(float)), 0) << "row " << i;
  }
  if (depth_ < 3) return;
  // The last steps have zeros in a: the same as a shorter depth, an odd one too.
  auto shorter = a;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t t = depth_ - 2; t < lda_; ++t) shorter[i * lda_ + t] = to_bf16(0.0f);
  std::vector<float> padded(kRows * cols_), cut(kRows * cols_);
  pair_product({shorter.data(), lda_, b.data(), padded.data(), kRows, depth_, cols_, 0.3f});
  pair_product({shorter.data(), lda_, b.data(), cut.data(), kRows, depth_ - 2, cols_, 0.3f});
  EXPECT_EQ(std::memcmp(padded.data(), cut.data(), cut.size() * sizeof(float)), 0);
}

TEST(PairRounding, IsToNearestEven) {
  if (!has_pair_products()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  const auto values = random_values(64, 5);
  std::vector<bf16> rounded(64);
  round_for_pairs(values.data(), 64, rounded.data());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(to_float(rounded[i]), round_to(Dtype::kBf16, values[i]));
}

// Depths of pairs and of a last single step; columns of one, two, four vectors and of every kind of rest.
INSTANTIATE_TEST_SUITE_P(Shapes, PairProducts,
                         ::testing::Combine(::testing::Values(1, 2, 7, 16, 31, 64, 128),
                                            ::testing::Values(16, 32, 48, 64, 112, 128)));

}  // namespace
}  // namespace rl::testing
