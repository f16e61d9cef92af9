// The matrix products of a GPU, forward and backward.
//
// Forward products have one order along K for each weight shape, whatever the number of rows, so a
// row's bits do not depend on its neighbours, and sampling and training agree. A weight shape has
// one algorithm of cublasLt, found and checked at its first use: products of several numbers of
// rows must have the bits of the largest. A shape for which no algorithm passes takes the product
// of kernels/products, whose order is written. Gradients need no such check: an algorithm for each
// shape makes them deterministic. On the way back a sum may be split, where K is much longer than
// the columns are many, as behind a vocabulary: without it few multiprocessors would have work.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ops/cuda/pinned_products.h"
#include "ops/packed_matrix.h"

namespace rl::cuda {

class CudaCompute;

// Rows of k values, each of them a column of the product.
struct ProductWeights {
  const std::byte* data;
  int64_t n, k;
  ProductWeights(const std::byte* data, int64_t n, int64_t k) : data(data), n(n), k(k) {}
  // Those of a matrix, which has been packed.
  ProductWeights(const PackedMatrix& w)  // NOLINT: implicit on purpose
      : ProductWeights(w.data(), w.shape().slices.n, w.shape().k) {}
};

class Products {
 public:
  explicit Products(CudaCompute& compute) : compute_(compute), pinned_(compute) {}

  // Finds the algorithm for the shape of the weights, if that is not known. It needs scratch, so an
  // op that takes all there is calls it before.
  void prepare(const ProductWeights& w);
  // y = x W^T for rows of x of the compute dtype; y is (rows, n).
  void multiply(const ProductWeights& w, const std::byte* x, int64_t rows, float* y);

  // The same on the way back, where bits of a row may depend on the number of rows.
  void multiply_back(const ProductWeights& w, const std::byte* x, int64_t rows, float* y);

  // grad += dy^T x.
  void add_gradient(const GradientProductParams& params);

  const std::string& library() const { return pinned_.library(); }
  // Whether products with weights of this shape are cublasLt's; prepare() was called.
  bool is_pinned(const ProductWeights& w) const;

 private:
  struct Shape {
    int64_t n, k;
    auto operator<=>(const Shape&) const = default;
  };
  struct GradientShape {
    int64_t n, k, stride;
    uint32_t alignment;  // of the operands
    auto operator<=>(const GradientShape&) const = default;
  };
  using Choice = std::optional<ProductAlgorithm>;  // none: the own product

  Choice find(const ProductWeights& w) const;
  Choice find_split(const ProductWeights& w) const;
  Choice find(const GradientProductParams& params) const;

  CudaCompute& compute_;
  const PinnedProducts pinned_;
  std::map<Shape, Choice> forward_;
  std::map<Shape, Choice> split_;  // of the way back
  std::map<GradientShape, Choice> backward_;
};

}  // namespace rl::cuda
