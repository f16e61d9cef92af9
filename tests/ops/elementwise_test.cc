// RMSNorm, gated units, embedding and rounding against double oracles on widths that are not
// multiples of a vector.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ops/convert.h"
#include "ops/embedding.h"
#include "ops/glu.h"
#include "ops/rms_norm.h"
#include "support/random_values.h"

namespace rl::testing {
namespace {

constexpr float kEps = 1e-5f;
// One rounding to bf16 is 2^-9 relative; fp32 chains of these lengths stay below 2e-6.
double tolerance(Dtype t, double value) {
  return (t == Dtype::kBf16 ? 0.0040 : 2e-6) * (std::abs(value) + 0.1);
}

class Elementwise : public ::testing::TestWithParam<std::tuple<Dtype, int64_t>> {
 protected:
  Dtype dtype_ = std::get<0>(GetParam());
  int64_t width_ = std::get<1>(GetParam());
  static constexpr int64_t kRows = 3;
};

TEST_P(Elementwise, RmsNormMatchesOracle) {
  const auto x = random_values(kRows * width_, 1), w = random_values(width_, 2);
  std::vector<std::byte> y(kRows * width_ * dtype_bytes(dtype_));
  rms_norm({x.data(), w.data(), y.data(), dtype_, kRows, width_, kEps});
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width_; ++i)
      sum += static_cast<double>(x[r * width_ + i]) * x[r * width_ + i];
    const double inv = 1.0 / std::sqrt(sum / static_cast<double>(width_) + kEps);
    for (int64_t i = 0; i < width_; ++i) {
      const double want = x[r * width_ + i] * inv * w[i];
      ASSERT_NEAR(element(y.data(), dtype_, r * width_ + i), want, tolerance(dtype_, want));
    }
  }
}

TEST_P(Elementwise, RmsNormBackwardMatchesDifferences) {
  const auto x = random_values(width_, 3), w = random_values(width_, 4),
             dy = random_values(width_, 5);
  std::vector<float> dx(width_, 0.25f), dw(width_, 0.5f);
  rms_norm_backward({x.data(), w.data(), dy.data(), dx.data(), dw.data(), 1, width_, kEps});
  const auto loss = [&](const std::vector<double>& xs, const std::vector<double>& ws) {
    double sum = 0, out = 0;
    for (const double v : xs) sum += v * v;
    const double inv = 1.0 / std::sqrt(sum / static_cast<double>(width_) + kEps);
    for (int64_t i = 0; i < width_; ++i) out += xs[i] * inv * ws[i] * dy[i];
    return out;
  };
  const std::vector<double> x0(x.begin(), x.end()), w0(w.begin(), w.end());
  for (int64_t i = 0; i < width_; ++i) {
    auto up = x0, down = x0, wu = w0, wd = w0;
    up[i] += 1e-6, down[i] -= 1e-6, wu[i] += 1e-6, wd[i] -= 1e-6;
    ASSERT_NEAR(dx[i], 0.25 + (loss(up, w0) - loss(down, w0)) / 2e-6, 2e-5) << i;
    ASSERT_NEAR(dw[i], 0.5 + (loss(x0, wu) - loss(x0, wd)) / 2e-6, 2e-5) << i;
  }
}

TEST_P(Elementwise, AWeightStoredLessOneIsOneMore) {
  const auto x = random_values(kRows * width_, 1), residual = random_values(kRows * width_, 8),
             dy = random_values(kRows * width_, 9);
  auto less = random_values(width_, 2), w = less;
  for (float& v : w) v += 1.0f;
  std::vector<std::byte> a(kRows * width_ * dtype_bytes(dtype_)), b(a.size());
  rms_norm({x.data(), w.data(), a.data(), dtype_, kRows, width_, kEps});
  rms_norm({x.data(), less.data(), b.data(), dtype_, kRows, width_, kEps, NormWeight::kMinusOne});
  EXPECT_EQ(a, b);
  std::vector<float> dx(kRows * width_, 0.25f), dw(width_, 0.5f), dx2 = dx, dw2 = dw, sum(dx),
                                                                  norm(dx);
  rms_norm_backward({x.data(), w.data(), dy.data(), dx.data(), dw.data(), kRows, width_, kEps});
  rms_norm_backward({x.data(), less.data(), dy.data(), dx2.data(), dw2.data(), kRows, width_, kEps,
                     NormWeight::kMinusOne});
  EXPECT_EQ(dx, dx2);
  EXPECT_EQ(dw, dw2);
  // The sum with a residual rounds the norm's own fp32 bits once more.
  rms_norm({x.data(), w.data(), norm.data(), Dtype::kF32, kRows, width_, kEps});
  rms_norm_add(
      {x.data(), w.data(), residual.data(), sum.data(), kRows, width_, kEps, NormWeight::kPlain});
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], residual[i] + norm[i]);
  sum = residual;
  rms_norm_add(
      {x.data(), less.data(), sum.data(), sum.data(), kRows, width_, kEps, NormWeight::kMinusOne});
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], residual[i] + norm[i]);
}

// act(z) and its derivative.
std::pair<double, double> activation(Activation act, double z) {
  if (act == Activation::kSilu) {
    const double s = 1.0 / (1.0 + std::exp(-z));
    return {z * s, s * (1.0 + z * (1.0 - s))};
  }
  const double scale = std::sqrt(2.0 / std::numbers::pi),
               t = std::tanh(scale * (z + 0.044715 * z * z * z));
  const double inner = scale * (1.0 + 3 * 0.044715 * z * z);
  return {0.5 * z * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * inner};
}

class GatedUnits : public ::testing::TestWithParam<std::tuple<Dtype, int64_t, Activation>> {};

TEST_P(GatedUnits, ForwardRecomputeAndBackwardMatchTheOracle) {
  const auto [dtype, width, act] = GetParam();
  constexpr int64_t kRows = 3;
  const auto tile = random_values(kRows * 2 * width, 6, 2.0f), dh = random_values(kRows * width, 7);
  const size_t item = dtype_bytes(dtype);
  std::vector<std::byte> h(kRows * width * item), again(h.size()), gate_up(2 * h.size()),
      d(2 * h.size());
  glu({tile.data(), h.data(), gate_up.data(), gate_up.data() + width * item, width, 2 * width,
       dtype, kRows, width, act});
  glu_recompute({gate_up.data(), again.data(), dtype, kRows, width, act});
  EXPECT_EQ(h, again);
  again.assign(h.size(), std::byte{1});
  glu_backward(
      {dh.data(), gate_up.data(), d.data(), dtype, kRows, 0, width, width, act, again.data()});
  EXPECT_EQ(h, again);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < width; ++i) {
      const double u = round_to(dtype, tile[r * 2 * width + width + i]), dhv = dh[r * width + i];
      const auto [value, slope] = activation(act, round_to(dtype, tile[r * 2 * width + i]));
      ASSERT_NEAR(element(h.data(), dtype, r * width + i), value * u, tolerance(dtype, value * u));
      const double dg = dhv * u * slope, du = dhv * value;
      ASSERT_NEAR(element(d.data(), dtype, r * 2 * width + i), dg, tolerance(dtype, dg));
      ASSERT_NEAR(element(d.data(), dtype, r * 2 * width + width + i), du, tolerance(dtype, du));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, GatedUnits,
                         ::testing::Combine(::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::Values<int64_t>(1, 15, 16, 33, 96, 577),
                                            ::testing::Values(Activation::kSilu,
                                                              Activation::kGeluTanh)));

TEST(GatedUnits, GeluIsExactWhereItsGateIsClosedOrOpen) {
  for (const float z : {-1e30f, -1e15f, -60.0f, -12.0f, 12.0f, 60.0f, 1e15f, 1e30f}) {
    const std::vector<float> gate_up = {z, 2.0f};
    std::vector<float> h(1), d(2);
    const float one = 1.0f;
    glu_recompute({gate_up.data(), h.data(), Dtype::kF32, 1, 1, Activation::kGeluTanh});
    glu_backward({&one, gate_up.data(), d.data(), Dtype::kF32, 1, 0, 1, 1, Activation::kGeluTanh});
    EXPECT_NEAR(h[0], z < 0 ? 0.0f : 2 * z, 1e-6f) << z;
    EXPECT_NEAR(d[0], z < 0 ? 0.0f : 2.0f, 1e-6f) << z;
    EXPECT_NEAR(d[1], z < 0 ? 0.0f : z, 1e-6f) << z;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Elementwise,
                         ::testing::Combine(::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::Values<int64_t>(1, 15, 16, 33, 96, 577)));

TEST(Rounding, RoundElementsIsToNearestEvenAndKeepsNan) {
  const std::vector<float> values = {1.0f,          1.00390625f, 1.01171875f, -3.0e38f,
                                     std::nanf(""), 0.0f,        -0.0f};
  std::vector<bf16> out(values.size());
  round_elements(values.data(), static_cast<int64_t>(values.size()), Dtype::kBf16, out.data());
  EXPECT_EQ(to_float(out[0]), 1.0f);
  EXPECT_EQ(to_float(out[1]), 1.0f);       // tie, even below
  EXPECT_EQ(to_float(out[2]), 1.015625f);  // tie, even above
  EXPECT_TRUE(std::isnan(to_float(out[4])));
  EXPECT_TRUE(std::signbit(to_float(out[6])));
}

TEST(Embedding, RowsAreScaledInTheComputeType) {
  const auto table = random_values(20, 1), dx = random_values(10, 2);
  const std::vector<int32_t> ids = {1};
  const float scale = round_to(Dtype::kBf16, std::sqrt(1152.0f));
  EXPECT_EQ(scale, 34.0f);
  std::vector<float> x(10), grad(20, 0.0f);
  embed({table.data(), ids.data(), 1, 10, scale, Dtype::kBf16, x.data()});
  embed_backward({dx.data(), ids.data(), 1, 10, 0, 10, scale, grad.data()});
  for (int64_t c = 0; c < 10; ++c) {
    EXPECT_EQ(x[c], round_to(Dtype::kBf16, round_to(Dtype::kBf16, table[10 + c]) * 34.0f));
    EXPECT_EQ(grad[10 + c], dx[c] * 34.0f);
  }
}

TEST(Embedding, ARowOfNoTokenIsZero) {
  const auto table = random_values(20, 1);
  const std::vector<int32_t> ids = {1, -1, 0};
  std::vector<float> x(30, 2.0f);
  embed({table.data(), ids.data(), 3, 10, 1.0f, Dtype::kF32, x.data()});
  for (int64_t c = 0; c < 10; ++c) {
    EXPECT_EQ(x[c], table[10 + c]);
    EXPECT_EQ(x[10 + c], 0.0f);
    EXPECT_EQ(x[20 + c], table[c]);
  }
}

TEST(Embedding, RowsAreRoundedAndGradientsOfARepeatedTokenAdd) {
  const int64_t hidden = 10;
  const auto table = random_values(4 * hidden, 1), dx = random_values(3 * hidden, 2);
  const std::vector<int32_t> ids = {2, 0, 2};
  std::vector<float> x(3 * hidden), grad(4 * hidden, 0.0f);
  embed({table.data(), ids.data(), 3, hidden, 1.0f, Dtype::kBf16, x.data()});
  embed_backward({dx.data(), ids.data(), 3, hidden, 0, 4, 1.0f, grad.data()});
  embed_backward({dx.data(), ids.data(), 3, hidden, 4, 6, 1.0f, grad.data()});
  for (int64_t c = 0; c < hidden; ++c) {
    EXPECT_EQ(x[c], to_float(to_bf16(table[2 * hidden + c])));
    EXPECT_EQ(grad[2 * hidden + c], dx[c] + dx[2 * hidden + c]);
    EXPECT_EQ(grad[c], dx[hidden + c]);
    EXPECT_EQ(grad[hidden + c], 0.0f);
  }
}

}  // namespace
}  // namespace rl::testing
