// RMSNorm of rows, and the gradients of norms and biases.
#include "ops/cuda/norm_cuda.h"

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/norm_kernels.h"
#include "ops/cuda/kernels/rows/vector_gradients_kernels.h"

namespace rl::cuda {

static_assert(kVectorGradientRows == kGradientRows);

void norm_rows(Compute& compute, const NormRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  norm_rows(gpu.stream(), {a.x, norm_params(a.norm), a.y, gpu.dtype(), a.rows, a.hidden});
}

void norm_rows_backward(Compute& compute, const NormRowsBackwardArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  float* const inverse = gpu.scratch<float>(a.rows);
  norm_rows_backward(gpu.stream(),
                     {a.x, a.dy, norm_params(a.norm), a.dx, inverse, a.rows, a.hidden});
  if (a.grad == nullptr) return;
  norm_weight_sums(gpu.stream(), {a.dy, a.x, inverse, a.rows, a.hidden, a.partial});
  add_chunks(gpu.stream(), {a.partial, num_gradient_chunks(a.rows), a.hidden, a.hidden, a.grad});
}

void bias_gradient(Compute& compute, const BiasGradientArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const int64_t stride = a.dy_stride != 0 ? a.dy_stride : a.width;
  column_sums(gpu.stream(), {a.dy, stride, a.rows, a.width, a.partial});
  add_chunks(gpu.stream(), {a.partial, num_gradient_chunks(a.rows), a.width, a.width, a.grad});
}

}  // namespace rl::cuda
