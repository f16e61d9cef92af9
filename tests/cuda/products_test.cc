// The product kernels themselves. In fp32 every sum has a written order, so the host repeats it
// bit for bit. In bf16 the order inside an instruction is the device's own: there a result lies
// within the bound of any order, (k + 2) 2^-24 times the sum of the terms' magnitudes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "cuda/device_data.h"
#include "ops/cuda/kernels/products/gradient_product.h"
#include "ops/cuda/kernels/products/product_fp32.h"
#include "ops/cuda/kernels/products/product_mma.h"

namespace rl::testing {
namespace {

struct Sizes {
  int64_t rows, n, k;
};
std::string name_of(const Sizes& s) { return str(s.rows, " x ", s.n, " x ", s.k); }

class Products : public ::testing::TestWithParam<Dtype> {
 protected:
  // Elements from `skipped` on: not aligned to 16 bytes if that is odd.
  struct Matrix {
    Matrix(Dtype dtype, int64_t count, unsigned seed, int64_t skipped = 0)
        : dtype(dtype),
          skipped(skipped),
          elements(as_dtype(random_values(skipped + count, seed), dtype)),
          device(std::span<const std::byte>(elements)) {}
    const std::byte* data() const {
      return device.data() + skipped * static_cast<int64_t>(dtype_bytes(dtype));
    }
    float at(int64_t i) const { return element(elements.data(), dtype, skipped + i); }

    Dtype dtype;
    int64_t skipped;
    std::vector<std::byte> elements;
    DeviceArray<std::byte> device;
  };

  void multiply(const cuda::ProductParams& p) const {
    dtype_ == Dtype::kBf16 ? cuda::product_mma(nullptr, p) : cuda::product_fp32(nullptr, p);
  }
  void add_gradient(const cuda::GradientProductParams& p) const {
    dtype_ == Dtype::kBf16 ? cuda::gradient_product_mma(nullptr, p)
                           : cuda::gradient_product_fp32(nullptr, p);
  }
  std::vector<float> product(const std::byte* x, const std::byte* w, const Sizes& s) const {
    DeviceArray<float> y(s.rows * s.n);
    multiply({x, w, y.data(), s.rows, s.n, s.k});
    return y.read();
  }

  const Dtype dtype_ = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Products, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

// A sum of a(i) b(i), in fp32 in chunks that are added in order.
struct Sum {
  Dtype dtype;
  float start;
  int64_t count, chunk;
};
template <typename A, typename B>
void expect_sum(float got, const Sum& of, const A& a, const B& b) {
  if (of.dtype == Dtype::kF32) {
    float total = 0;
    for (int64_t first = 0; first < of.count; first += of.chunk) {
      float sum = 0;
      for (int64_t i = first; i < std::min(of.count, first + of.chunk); ++i)
        sum = std::fma(a(i), b(i), sum);
      total += sum;
    }
    ASSERT_EQ(got, of.start + total);
    return;
  }
  double sum = of.start, magnitude = std::abs(of.start);
  for (int64_t i = 0; i < of.count; ++i) {
    sum += static_cast<double>(a(i)) * b(i);
    magnitude += std::abs(static_cast<double>(a(i)) * b(i));
  }
  ASSERT_NEAR(got, sum, static_cast<double>(of.count + 2) * 0x1p-24 * magnitude);
}

TEST_P(Products, EdgeShapesHaveTheSumsOfTheirRows) {
  for (const Sizes& s :
       {Sizes{1, 1, 1}, Sizes{1, 64, 64}, Sizes{16, 65, 40}, Sizes{17, 3, 16}, Sizes{33, 130, 72},
        Sizes{64, 64, 128}, Sizes{65, 129, 200}, Sizes{70, 20, 33}, Sizes{2, 70, 905}}) {
    const Matrix x(dtype_, s.rows * s.k, 1), w(dtype_, s.n * s.k, 2);
    const std::vector<float> y = product(x.data(), w.data(), s);
    for (int64_t r = 0; r < s.rows; ++r)
      for (int64_t c = 0; c < s.n; ++c)
        ASSERT_NO_FATAL_FAILURE(expect_sum(
            y[static_cast<size_t>(r * s.n + c)], {dtype_, 0, s.k, s.k},
            [&](int64_t i) { return x.at(r * s.k + i); },
            [&](int64_t i) { return w.at(c * s.k + i); }))
            << name_of(s) << ": " << r << ", " << c;
  }
}

// N1: any number of rows, beginning at any row, gives the bits of all rows.
TEST_P(Products, BitsOfARowDependOnNoOtherRow) {
  constexpr Sizes kAll{300, 72, 88};
  const Matrix x(dtype_, kAll.rows * kAll.k, 3), w(dtype_, kAll.n * kAll.k, 4);
  const std::vector<float> all = product(x.data(), w.data(), kAll);
  for (int64_t rows = 1; rows <= kAll.rows; rows += rows < 34 ? 1 : 19) {
    for (const int64_t first : {int64_t{0}, kAll.rows - rows}) {
      const std::byte* from = x.data() + first * kAll.k * static_cast<int64_t>(dtype_bytes(dtype_));
      const std::vector<float> some = product(from, w.data(), {rows, kAll.n, kAll.k});
      ASSERT_EQ(std::memcmp(some.data(), all.data() + first * kAll.n, some.size() * sizeof(float)),
                0)
          << rows << " rows from " << first;
    }
  }
}

TEST_P(Products, AlignmentChangesNoBit) {
  for (const Sizes& s : {Sizes{20, 70, 72}, Sizes{70, 70, 72}}) {
    const Matrix x(dtype_, s.rows * s.k, 5), w(dtype_, s.n * s.k, 6);
    std::vector<float> apart(static_cast<size_t>(s.rows * s.k + 1));
    for (size_t i = 1; i < apart.size(); ++i) apart[i] = x.at(static_cast<int64_t>(i) - 1);
    const DeviceArray<std::byte> moved{std::span<const std::byte>(as_dtype(apart, dtype_))};
    EXPECT_EQ(product(moved.data() + dtype_bytes(dtype_), w.data(), s),
              product(x.data(), w.data(), s));
  }
}

TEST_P(Products, AProductOfNoRowsWritesNothing) {
  const Matrix w(dtype_, 64, 7);
  multiply({nullptr, w.data(), nullptr, 0, 8, 8});
  RL_CUDA(cudaDeviceSynchronize());
}

struct GradientCase {
  Sizes sizes;
  int64_t more_columns;  // of dy that do not take part
};

TEST_P(Products, GradientsAddTheSumsOfTheirColumns) {
  for (const auto& [s, more] :
       {GradientCase{{1, 1, 1}, 0}, GradientCase{{16, 64, 64}, 0}, GradientCase{{33, 72, 40}, 8},
        GradientCase{{31, 65, 67}, 3}, GradientCase{{512, 8, 16}, 0},
        GradientCase{{1030, 16, 9}, 0}, GradientCase{{100, 9, 130}, 7}}) {
    const int64_t stride = s.n + more;
    const Matrix dy(dtype_, s.rows * stride, 8), x(dtype_, s.rows * s.k, 9);
    const std::vector<float> start = random_values(s.n * s.k, 10);
    DeviceArray<float> grad{std::span<const float>(start)};
    add_gradient({dy.data(), x.data(), grad.data(), s.rows, s.n, s.k, stride});
    const std::vector<float> got = grad.read();
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t k = 0; k < s.k; ++k)
        ASSERT_NO_FATAL_FAILURE(expect_sum(
            got[static_cast<size_t>(n * s.k + k)],
            {dtype_, start[static_cast<size_t>(n * s.k + k)], s.rows, cuda::kGradientSumRows},
            [&](int64_t r) { return dy.at(r * stride + n); },
            [&](int64_t r) { return x.at(r * s.k + k); }))
            << name_of(s) << ": " << n << ", " << k;
  }
}

TEST_P(Products, AGradientOfNoRowsChangesNothing) {
  const std::vector<float> start = random_values(16 * 16, 11);
  DeviceArray<float> grad{std::span<const float>(start)};
  add_gradient({nullptr, nullptr, grad.data(), 0, 16, 16, 16});
  EXPECT_EQ(grad.read(), start);
}

}  // namespace
}  // namespace rl::testing
