// RMSNorm on the GPU: forward and backward against the reference device, over widths on both sides
// of the border between a warp and a block for a row.
//
// Tolerance: a thread adds at most 32 terms (width 1024, one warp) and 13 more sums follow, so a
// sum's relative error stays below 45 * 2^-24 = 3e-6, and half of that in its root.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "cuda/device_data.h"
#include "ops/cuda/kernels/rows/norm_kernels.h"

namespace rl::testing {
namespace {

constexpr Tolerance kTolerance{1e-7, 4e-6};
constexpr float kEps = 1e-5f;

struct Case {
  Dtype dtype;
  int64_t rows, hidden;
  NormWeight kind;
};
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return str(dtype_name(c.dtype), "_", c.rows, "x", c.hidden,
             c.kind == NormWeight::kPlain ? "" : "_minus_one");
}

class NormTwins : public ::testing::TestWithParam<Case> {
 protected:
  int64_t floats() const { return c_.rows * c_.hidden; }

  const Case c_ = GetParam();
  TwoDevices devices_{c_.dtype};
  OnBoth<float> x_{random_values(floats(), 1, 3.0f)}, w_{random_values(c_.hidden, 2)};
};

INSTANTIATE_TEST_SUITE_P(Shapes, NormTwins,
                         ::testing::Values(Case{Dtype::kF32, 1, 8, NormWeight::kPlain},
                                           Case{Dtype::kBf16, 9, 24, NormWeight::kPlain},
                                           Case{Dtype::kF32, 70, 33, NormWeight::kMinusOne},
                                           Case{Dtype::kBf16, 131, 100, NormWeight::kPlain},
                                           Case{Dtype::kF32, 3, 1024, NormWeight::kPlain},
                                           Case{Dtype::kF32, 3, 1025, NormWeight::kMinusOne},
                                           Case{Dtype::kBf16, 66, 2050, NormWeight::kPlain}),
                         name_of);

TEST_P(NormTwins, RowsAreNormed) {
  OnBoth<std::byte> y = elements_to_write(c_.dtype, floats());
  devices_.run([&](Compute& compute, auto at) {
    norm_rows(compute, {at(x_), {at(w_), kEps, c_.kind}, at(y), c_.rows, c_.hidden});
  });
  expect_near(c_.dtype, y, kTolerance);
}

// N1: the bits of a row are those that it has alone.
TEST_P(NormTwins, ARowAloneHasTheSameBits) {
  const RowNorm norm{w_.on_device(), kEps, c_.kind};
  DeviceArray<std::byte> all(floats() * static_cast<int64_t>(dtype_bytes(c_.dtype)));
  norm_rows(devices_.gpu(), {x_.on_device(), norm, all.data(), c_.rows, c_.hidden});
  const std::vector<std::byte> expected = all.read();
  const int64_t row_bytes = all.count() / c_.rows;
  for (const int64_t row : {int64_t{0}, c_.rows / 2, c_.rows - 1}) {
    DeviceArray<std::byte> one(row_bytes);
    norm_rows(devices_.gpu(), {x_.on_device() + row * c_.hidden, norm, one.data(), 1, c_.hidden});
    const std::vector<std::byte> got = one.read();
    EXPECT_EQ(std::memcmp(got.data(), expected.data() + row * row_bytes, got.size()), 0) << row;
  }
}

TEST_P(NormTwins, GradientsAreAdded) {
  OnBoth<float> dy(random_values(floats(), 3)), dx(random_values(floats(), 4)),
      grad(random_values(c_.hidden, 5)), partial(row_sum_floats(c_.rows, c_.hidden));
  devices_.run([&](Compute& compute, auto at) {
    norm_rows_backward(compute, {at(x_),
                                 at(dy),
                                 {at(w_), kEps, c_.kind},
                                 at(dx),
                                 at(grad),
                                 c_.rows,
                                 c_.hidden,
                                 at(partial)});
  });
  expect_near(dx, {2e-6, 1e-5});
  // Sums of up to 64 rows, then of up to three chunks: 67 roundings of values below 64.
  expect_near(grad, {67 * 64.0 / (1 << 24), 1e-5});
}

TEST_P(NormTwins, TheGradientOfAFrozenWeightIsNotComputed) {
  OnBoth<float> dy(random_values(floats(), 3)), dx(random_values(floats(), 4)), partial(int64_t{0});
  devices_.run([&](Compute& compute, auto at) {
    norm_rows_backward(compute, {at(x_),
                                 at(dy),
                                 {at(w_), kEps, c_.kind},
                                 at(dx),
                                 nullptr,
                                 c_.rows,
                                 c_.hidden,
                                 at(partial)});
  });
  expect_near(dx, {2e-6, 1e-5});
}

// What follows a product: a residual's sum, with or without a norm of the product, has the bits of
// the separate steps.
TEST_P(NormTwins, ASumAndItsNormHaveTheBitsOfTheSteps) {
  OnBoth<float> residual(random_values(floats(), 6)), sandwich(random_values(c_.hidden, 7));
  TwoDevices fp32(Dtype::kF32);
  DeviceArray<float> normed(floats());
  norm_rows(fp32.gpu(), {x_.on_device(),
                         {sandwich.on_device(), kEps, c_.kind},
                         reinterpret_cast<std::byte*>(normed.data()),
                         c_.rows,
                         c_.hidden});
  const std::vector<float> norm_of_x = normed.read();
  auto& gpu = cuda::cuda_of(devices_.gpu());
  for (const bool has_sandwich : {false, true}) {
    std::vector<float> expected = residual.host();
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] += has_sandwich ? norm_of_x[i] : x_.host()[i];
    DeviceArray<float> sum(std::span<const float>(residual.host()));
    DeviceArray<std::byte> y(floats() * gpu.item()), y_of_sum(y.count());
    const cuda::NormParams norm{w_.on_device(), kEps, c_.kind};
    const cuda::NormParams inner{has_sandwich ? sandwich.on_device() : nullptr, kEps, c_.kind};
    cuda::add_norm_rows(gpu.stream(), {x_.on_device(), inner, sum.data(), sum.data(), norm,
                                       y.data(), c_.dtype, c_.rows, c_.hidden});
    EXPECT_EQ(sum.read(), expected);
    norm_rows(gpu, {sum.data(), {norm.weight, kEps, c_.kind}, y_of_sum.data(), c_.rows, c_.hidden});
    EXPECT_EQ(y.read(), y_of_sum.read());
  }
}

TEST_P(NormTwins, EmbeddingsAreRoundedScaledAndNormed) {
  constexpr int64_t kVocab = 7;
  const float scale = round_to(c_.dtype, 5.65f);
  OnBoth<float> table(random_values(kVocab * c_.hidden, 8));
  std::vector<int32_t> ids(static_cast<size_t>(c_.rows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 5 + 6) % kVocab);
  if (ids.size() > 1) ids[1] = -1;
  OnBoth<float> x(floats());
  OnBoth<std::byte> y = elements_to_write(c_.dtype, floats());
  devices_.run([&](Compute& compute, auto at) {
    embed_rows(compute,
               {at(table), ids, c_.hidden, scale, at(x), {{at(w_), kEps, c_.kind}, at(y)}});
  });
  expect_same(x);
  expect_near(c_.dtype, y, kTolerance);
  OnBoth<std::byte> again = elements_to_write(c_.dtype, floats());
  norm_rows(
      devices_.gpu(),
      {x.on_device(), {w_.on_device(), kEps, c_.kind}, again.on_device(), c_.rows, c_.hidden});
  EXPECT_EQ(y.read_device(), again.read_device());
}

TEST_P(NormTwins, ColumnsAreSummedForABias) {
  const int64_t width = c_.hidden / 2, stride = c_.hidden;
  OnBoth<float> grad(random_values(width, 9)), partial(row_sum_floats(c_.rows, width));
  devices_.run([&](Compute& compute, auto at) {
    bias_gradient(compute, {at(x_) + 3, c_.rows, width, at(partial), at(grad), stride});
  });
  expect_near(grad, {67 * 64.0 / (1 << 24), 1e-6});
}

}  // namespace
}  // namespace rl::testing
