// Products of a Compute: cublasLt's where the order of its sums holds for any number of rows, else
// the library's own. The stand-in of cublasLt proposes algorithms that keep their order and one
// that does not, and for a depth that the test names none keeps it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cuda/device_data.h"
#include "cuda_host/emulator.h"
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/products/product_fp32.h"
#include "ops/cuda/kernels/products/product_mma.h"
#include "ops/cuda/products.h"

namespace rl::testing {
namespace {

constexpr int64_t kRows = 330, kN = 40, kK = 48, kUnsteadyK = 56;

class PinnedProducts : public ::testing::TestWithParam<Dtype> {
 protected:
  PinnedProducts() {
    emulated::DeviceShape shape;
    shape.unsteady_depth = kUnsteadyK;
    emulated::set_device(shape);
  }
  ~PinnedProducts() override { emulated::set_device({}); }

  struct Operands {
    Operands(Dtype dtype, int64_t k)
        : x(std::span<const std::byte>(as_dtype(random_values(kRows * k, 1), dtype))),
          w(std::span<const std::byte>(as_dtype(random_values(kN * k, 2), dtype))),
          row_bytes(k * static_cast<int64_t>(dtype_bytes(dtype))) {
      PackedShape shape;
      shape.k = k;
      shape.slices = {kN, kN};
      matrix.bind(shape, w.data());
    }
    DeviceArray<std::byte> x, w;
    PackedMatrix matrix;
    int64_t row_bytes;
  };
  std::vector<float> multiply(cuda::Products& products, const Operands& of, int64_t first,
                              int64_t rows) {
    DeviceArray<float> y(rows * kN);
    products.multiply(of.matrix, of.x.data() + first * of.row_bytes, rows, y.data());
    return y.read();
  }
  void expect_rows_alone(const Operands& of) {
    cuda::Products& products = gpu_.products();
    const std::vector<float> all = multiply(products, of, 0, kRows);
    for (const int64_t rows : {1, 2, 3, 16, 17, 33, 64, 100, 129, 255, 320}) {
      for (const int64_t first : {int64_t{0}, kRows - rows}) {
        const std::vector<float> some = multiply(products, of, first, rows);
        ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * kN))
            << rows << " rows from " << first;
      }
    }
  }

  const Dtype dtype_ = GetParam();
  TwoDevices devices_{dtype_};
  cuda::CudaCompute& gpu_ = cuda::cuda_of(devices_.gpu());
};
INSTANTIATE_TEST_SUITE_P(Dtypes, PinnedProducts, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(PinnedProducts, AnAlgorithmThatKeepsItsOrderIsTaken) {
  const Operands of(dtype_, kK);
  expect_rows_alone(of);
  EXPECT_TRUE(gpu_.products().is_pinned(of.matrix));
}

TEST_P(PinnedProducts, WithoutOneTheProductIsTheLibrarysOwn) {
  const Operands of(dtype_, kUnsteadyK);
  expect_rows_alone(of);
  EXPECT_FALSE(gpu_.products().is_pinned(of.matrix));
  DeviceArray<float> own(kRows * kN);
  const cuda::ProductParams params{of.x.data(), of.w.data(), own.data(), kRows, kN, kUnsteadyK};
  dtype_ == Dtype::kBf16 ? cuda::product_mma(nullptr, params) : cuda::product_fp32(nullptr, params);
  EXPECT_EQ(multiply(gpu_.products(), of, 0, kRows), own.read());
}

// Without room for 65 rows little can be compared, so nothing is trusted.
TEST_P(PinnedProducts, WhatCannotBeCheckedIsNotTrusted) {
  TwoDevices little(dtype_, {.scratch_bytes = 32 << 10, .staging_bytes = 1 << 20});
  cuda::CudaCompute& gpu = cuda::cuda_of(little.gpu());
  const Operands of(dtype_, kK);
  multiply(gpu.products(), of, 0, 3);
  EXPECT_FALSE(gpu.products().is_pinned(of.matrix));
}

// On the way back a sum over many elements, but no other, is split; what is longer than a part of
// rows goes on in the next.
TEST_P(PinnedProducts, ALongSumOfTheWayBackIsSplit) {
  for (const auto& [k, split] : {std::pair{15 * kN, false}, std::pair{16 * kN, true}}) {
    const Operands of(dtype_, k);
    const auto back = [&] {
      DeviceArray<float> y(kRows * kN);
      gpu_.products().multiply_back(of.matrix, of.x.data(), kRows, y.data());
      return y.read();
    };
    const std::vector<float> got = back(), whole = multiply(gpu_.products(), of, 0, kRows);
    EXPECT_EQ(got, back());
    EXPECT_EQ(got != whole, split);
    expect_near(got, whole, {1e-4, 1e-5});
  }
}

// The same gradient twice has the same bits; a gradient whose operands are not aligned is right
// too.
TEST_P(PinnedProducts, GradientsAreDeterministic) {
  constexpr int64_t kBatch = 70;
  const std::vector<float> start = random_values(kN * kK, 3);
  for (const int64_t skipped : {0, 1}) {
    const auto offset = skipped * gpu_.item();
    const std::vector<std::byte> dy = as_dtype(random_values(skipped + kBatch * kN, 4), dtype_),
                                 x = as_dtype(random_values(skipped + kBatch * kK, 5), dtype_);
    const DeviceArray<std::byte> device_dy{std::span(dy)}, device_x{std::span(x)};
    std::vector<float> results[2];
    for (std::vector<float>& result : results) {
      const DeviceArray<float> grad{std::span<const float>(start)};
      gpu_.products().add_gradient(
          {device_dy.data() + offset, device_x.data() + offset, grad.data(), kBatch, kN, kK, kN});
      result = grad.read();
    }
    EXPECT_EQ(results[0], results[1]);
    std::vector<float> want = start;
    for (int64_t n = 0; n < kN; ++n) {
      for (int64_t k = 0; k < kK; ++k) {
        double sum = start[static_cast<size_t>(n * kK + k)];
        for (int64_t r = 0; r < kBatch; ++r)
          sum += static_cast<double>(element(dy.data(), dtype_, skipped + r * kN + n)) *
                 element(x.data(), dtype_, skipped + r * kK + k);
        want[static_cast<size_t>(n * kK + k)] = static_cast<float>(sum);
      }
    }
    // 71 terms of magnitude 1, in fp32.
    expect_near(results[0], want, {1e-4, 1e-5});
  }
}

}  // namespace
}  // namespace rl::testing
