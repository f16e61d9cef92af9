// The stand-in for cuBLASLt multiplies correctly, keeps its order of sums while the algorithm is
// pinned, and changes it with the number of rows where it is not.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/dtype.h"
#include "cuda_host/device_array.h"
#include "cuda_host/emulator.h"

namespace rl::emulated {
namespace {

constexpr int64_t kOutputs = 24, kDepth = 200;

float element(int64_t i) { return std::sin(static_cast<float>(i) * 1.7f) + 0.1f; }

// A product y = x W^T as cuBLASLt sees it: y^T (outputs, rows) = W (transposed) x^T, by columns.
class Product {
 public:
  Product(cudaDataType type, int64_t rows) : type_(type), rows_(rows) {
    const auto layout = [](cublasLtMatrixLayout_t* to, cudaDataType t, int64_t r, int64_t c) {
      EXPECT_EQ(
          cublasLtMatrixLayoutCreate(to, t, static_cast<uint64_t>(r), static_cast<uint64_t>(c), r),
          CUBLAS_STATUS_SUCCESS);
    };
    EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    const cublasOperation_t transpose = CUBLAS_OP_T;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                             sizeof transpose),
              CUBLAS_STATUS_SUCCESS);
    layout(&w_, type, kDepth, kOutputs);
    layout(&x_, type, kDepth, rows);
    layout(&y_, CUDA_R_32F, kOutputs, rows);
  }
  ~Product() {
    for (const cublasLtMatrixLayout_t l : {w_, x_, y_}) cublasLtMatrixLayoutDestroy(l);
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }
  Product(const Product&) = delete;

  std::vector<std::byte> stored(int64_t count, int64_t first) const {
    std::vector<std::byte> out;
    for (int64_t i = 0; i < count; ++i) {
      const float v = element(first + i);
      const bf16 half = to_bf16(v);
      const std::byte* const from = type_ == CUDA_R_32F ? reinterpret_cast<const std::byte*>(&v)
                                                        : reinterpret_cast<const std::byte*>(&half);
      out.insert(out.end(), from, from + (type_ == CUDA_R_32F ? 4 : 2));
    }
    return out;
  }

  std::vector<float> run(const cublasLtMatmulAlgo_t* algo) {
    const DeviceArray<std::byte> w(stored(kOutputs * kDepth, 7)), x(stored(rows_ * kDepth, 0));
    const DeviceArray<float> y(static_cast<size_t>(kOutputs * rows_)), workspace(1 << 20);
    const float one = 1, zero = 0;
    EXPECT_EQ(cublasLtMatmul(handle_, desc_, &one, w.data(), w_, x.data(), x_, &zero, y.data(), y_,
                             y.data(), y_, algo, workspace.data(), 4 << 20, nullptr),
              CUBLAS_STATUS_SUCCESS);
    return y.values();
  }
  double expected(int64_t output, int64_t row) const {
    double sum = 0;
    const auto value = [&](int64_t i) -> double {
      return type_ == CUDA_R_32F ? element(i) : to_float(to_bf16(element(i)));
    };
    for (int64_t k = 0; k < kDepth; ++k)
      sum += value(7 + output * kDepth + k) * value(row * kDepth + k);
    return sum;
  }
  cublasLtMatmulAlgo_t pinned(int32_t tile, int32_t splits) {
    cublasLtMatmulAlgo_t algo;
    EXPECT_EQ(cublasLtMatmulAlgoInit(handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, type_, type_,
                                     CUDA_R_32F, CUDA_R_32F, 1, &algo),
              CUBLAS_STATUS_SUCCESS);
    const int32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile);
    cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                         sizeof splits);
    cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                         sizeof scheme);
    cublasLtMatmulHeuristicResult_t result;
    EXPECT_EQ(cublasLtMatmulAlgoCheck(handle_, desc_, w_, x_, y_, y_, &algo, &result),
              CUBLAS_STATUS_SUCCESS);
    return algo;
  }

 private:
  cudaDataType type_;
  int64_t rows_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t desc_;
  cublasLtMatrixLayout_t w_, x_, y_;
};

std::vector<float> first_row(const std::vector<float>& y) {
  return {y.begin(), y.begin() + kOutputs};
}

TEST(BlasStandIn, ProductsAreRightInBothTypes) {
  restart(0);
  for (const cudaDataType type : {CUDA_R_32F, CUDA_R_16BF}) {
    for (const int64_t rows : {1, 5, 33}) {
      Product product(type, rows);
      const std::vector<float> y = product.run(nullptr);
      // 200 terms of at most 1.3: the roundings of an fp32 sum stay below 200 * 200 * 2^-24.
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t o = 0; o < kOutputs; ++o)
          ASSERT_NEAR(y[static_cast<size_t>(row * kOutputs + o)], product.expected(o, row), 2.4e-3);
    }
  }
}

TEST(BlasStandIn, AnUnpinnedOrderChangesWithTheNumberOfRows) {
  restart(0);
  std::set<std::vector<float>> seen;
  for (const int64_t rows : {1, 2, 8, 16, 40})
    seen.insert(first_row(Product(CUDA_R_32F, rows).run(nullptr)));
  EXPECT_GT(seen.size(), 2u);
}

TEST(BlasStandIn, APinnedOrderDoesNot) {
  restart(0);
  std::set<std::vector<float>> orders;
  for (const int32_t splits : {1, 3}) {
    std::set<std::vector<float>> seen;
    for (const int64_t rows : {1, 2, 8, 16, 40}) {
      Product product(CUDA_R_32F, rows);
      const cublasLtMatmulAlgo_t algo = product.pinned(CUBLASLT_MATMUL_TILE_128x64, splits);
      seen.insert(first_row(product.run(&algo)));
    }
    EXPECT_EQ(seen.size(), 1u);
    orders.insert(*seen.begin());
  }
  EXPECT_EQ(orders.size(), 2u);  // the split is part of the order
}

TEST(BlasStandIn, ADepthThatTheTestNamesIsUnsteadyEvenWhenPinned) {
  restart(0);
  set_device({.unsteady_depth = kDepth});
  std::set<std::vector<float>> seen;
  for (const int64_t rows : {1, 2, 3}) {
    Product product(CUDA_R_32F, rows);
    const cublasLtMatmulAlgo_t algo = product.pinned(CUBLASLT_MATMUL_TILE_128x64, 1);
    seen.insert(first_row(product.run(&algo)));
  }
  EXPECT_GT(seen.size(), 1u);
  restart(0);
}

}  // namespace
}  // namespace rl::emulated
