// Gated units on the GPU against the formulas in double. Tolerance: a handful of fp32 operations
// and one exponential, each within 2 units of 2^-24; the slope of gelu_tanh loses a few more where
// its terms cancel.
#include <gtest/gtest.h>

#include "cuda/device_data.h"
#include "ops/cuda/kernels/rows/gated_kernels.h"
#include "reference/reference_elements.h"

namespace rl::testing {
namespace {

struct Case {
  Dtype dtype;
  Activation activation;
};

class GatedTwins : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kRows = 5, kFfn = 1100;

  // Gates from -60 to 60, so that both ends of the sigmoid are reached, and some near 0.
  std::vector<float> gate_up() const {
    std::vector<float> out = random_values(kRows * 2 * kFfn, 1);
    for (size_t i = 0; i < out.size(); i += 3) out[i] *= 20;
    return out;
  }

  const Case c_ = GetParam();
  TwoDevices devices_{c_.dtype};
  cuda::CudaCompute& gpu_ = cuda::cuda_of(devices_.gpu());
};
INSTANTIATE_TEST_SUITE_P(Kinds, GatedTwins,
                         ::testing::Values(Case{Dtype::kF32, Activation::kSilu},
                                           Case{Dtype::kBf16, Activation::kSilu},
                                           Case{Dtype::kF32, Activation::kGeluTanh},
                                           Case{Dtype::kBf16, Activation::kGeluTanh}),
                         [](const auto& info) {
                           return str(
                               dtype_name(info.param.dtype),
                               info.param.activation == Activation::kSilu ? "_silu" : "_gelu_tanh");
                         });

TEST_P(GatedTwins, RowsMatchTheReference) {
  OnBoth<std::byte> saved = elements_of(c_.dtype, gate_up());
  OnBoth<std::byte> h = elements_to_write(c_.dtype, kRows * kFfn);
  devices_.run([&](Compute& compute, auto at) {
    glu_rows(compute, {at(saved), at(h), kRows, kFfn, c_.activation});
  });
  expect_near(c_.dtype, h, {1e-9, 3e-6});
}

// The forward rounds gate and up and saves them; the backward computes the same h from them.
TEST_P(GatedTwins, SavedRowsGiveTheBitsOfTheProduct) {
  DeviceArray<float> product{std::span<const float>(gate_up())};
  DeviceArray<std::byte> h(kRows * kFfn * gpu_.item()), again(h.count()), unsaved(h.count()),
      saved(2 * h.count());
  cuda::gate_product(gpu_.stream(), {product.data(), h.data(), saved.data(), c_.dtype, kRows, kFfn,
                                     c_.activation});
  cuda::gate_product(gpu_.stream(), {product.data(), unsaved.data(), nullptr, c_.dtype, kRows, kFfn,
                                     c_.activation});
  glu_rows(gpu_, {saved.data(), again.data(), kRows, kFfn, c_.activation});
  EXPECT_EQ(saved.read(), as_dtype(gate_up(), c_.dtype));
  EXPECT_EQ(again.read(), h.read());
  EXPECT_EQ(unsaved.read(), h.read());
}

TEST_P(GatedTwins, GradientsMatchTheFormulas) {
  const std::vector<std::byte> saved = as_dtype(gate_up(), c_.dtype);
  const std::vector<float> dh = random_values(kRows * kFfn, 2);
  DeviceArray<float> device_dh{std::span<const float>(dh)};
  DeviceArray<std::byte> device_saved{std::span<const std::byte>(saved)}, d(device_saved.count());
  cuda::gate_backward(gpu_.stream(), {device_dh.data(), device_saved.data(), d.data(), c_.dtype,
                                      kRows, kFfn, c_.activation});
  std::vector<float> want(static_cast<size_t>(kRows * 2 * kFfn));
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kFfn; ++c) {
      const int64_t at = r * 2 * kFfn + c;
      const double z = element(saved.data(), c_.dtype, at),
                   up = element(saved.data(), c_.dtype, at + kFfn), dh_at = dh[r * kFfn + c];
      const reference::Gate gate(c_.activation, z);
      want[at] = static_cast<float>(dh_at * up * gate.slope);
      want[at + kFfn] = static_cast<float>(dh_at * z * gate.value);
    }
  }
  expect_near(floats_of(c_.dtype, d.read()), want,
              {4e-6, c_.dtype == Dtype::kBf16 ? kBf16Step : 1e-5});
}

}  // namespace
}  // namespace rl::testing
