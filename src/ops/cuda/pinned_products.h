// Products by cublasLt, each with the algorithm that the caller names, so that the order of a sum
// is the caller's choice and not that of a heuristic which looks at the number of rows.
//
// Unless a caller allows it, K is not split into parts that are summed apart. Besides the order of
// an algorithm this leaves nothing that a workspace, which some algorithms need, could decide.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/blas_library.h"
#include "ops/cuda/kernels/products/product_params.h"

namespace rl::cuda {

class CudaCompute;
using ProductAlgorithm = cublasLtMatmulAlgo_t;

class PinnedProducts {
 public:
  // Takes its workspace from the scratch of the Compute, for good. The device is current.
  explicit PinnedProducts(CudaCompute& compute);
  const std::string& library() const { return blas_.name(); }  // with its version

  // Algorithms for products with these sizes and this alignment of operands, most promising first;
  // none if cublasLt has none. An algorithm needs that alignment again.
  std::vector<ProductAlgorithm> algorithms(const ProductParams& params) const;
  // The same where K may be split: parts as many as the algorithm says are summed in one order.
  std::vector<ProductAlgorithm> splitting_algorithms(const ProductParams& params) const;
  std::vector<ProductAlgorithm> algorithms(const GradientProductParams& params) const;

  // False if the algorithm cannot compute this product; then nothing was started.
  bool multiply(const ProductParams& params, const ProductAlgorithm& algorithm) const;
  bool add_gradient(const GradientProductParams& params, const ProductAlgorithm& algorithm) const;

 private:
  // out = op(a) op(b) + beta out, as cublasLt says it: by columns.
  struct Matrix {
    const void* data;
    int64_t rows, columns, stride;
    bool transposed;
  };
  struct Problem {
    Matrix a, b, out;  // out is fp32
    float beta;
  };
  static Problem problem(const ProductParams& params);
  static Problem problem(const GradientProductParams& params);
  std::vector<ProductAlgorithm> algorithms(const Problem& problem, uint32_t reductions) const;
  bool run(const Problem& problem, const ProductAlgorithm& algorithm) const;

  CudaCompute& compute_;
  const BlasLibrary blas_;
  const int64_t workspace_bytes_;
  std::byte* const workspace_;
};

}  // namespace rl::cuda
