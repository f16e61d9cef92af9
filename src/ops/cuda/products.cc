// Each product by the kernel of the compute dtype.
#include "ops/cuda/products.h"

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/products/gradient_product.h"
#include "ops/cuda/kernels/products/product_fp32.h"
#include "ops/cuda/kernels/products/product_mma.h"

namespace rl::cuda {

void Products::multiply(const PackedMatrix& w, const std::byte* x, int64_t rows, float* y) {
  const ProductParams params{x, w.data(), y, rows, w.shape().slices.n, w.shape().k};
  if (compute_.dtype() == Dtype::kBf16)
    product_mma(compute_.stream(), params);
  else
    product_fp32(compute_.stream(), params);
}

void Products::add_gradient(const GradientProductParams& params) {
  if (compute_.dtype() == Dtype::kBf16)
    gradient_product_mma(compute_.stream(), params);
  else
    gradient_product_fp32(compute_.stream(), params);
}

}  // namespace rl::cuda
