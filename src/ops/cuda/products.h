// The matrix products of a GPU, forward and backward.
//
// Forward products have one order along K for each weight shape, whatever the number of rows, so a
// row's bits do not depend on its neighbours, and sampling and training agree.
#pragma once
#include <cstddef>
#include <cstdint>

#include "ops/cuda/kernels/products/product_params.h"
#include "ops/packed_matrix.h"

namespace rl::cuda {

class CudaCompute;

class Products {
 public:
  explicit Products(CudaCompute& compute) : compute_(compute) {}

  // y = x W^T for rows of x of the compute dtype; y is (rows, n).
  void multiply(const PackedMatrix& w, const std::byte* x, int64_t rows, float* y);
  // grad += dy^T x.
  void add_gradient(const GradientProductParams& params);

 private:
  CudaCompute& compute_;
};

}  // namespace rl::cuda
