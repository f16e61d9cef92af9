// Gradients of weight matrices. Kernels exist for every shape, so there is nothing to prepare.
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/products.h"

namespace rl::cuda {

void weight_gradient(Compute& compute, const WeightGradientArgs& a) {
  cuda_of(compute).products().add_gradient({.dy = a.dy,
                                            .x = a.x,
                                            .grad = a.grad,
                                            .rows = a.rows,
                                            .n = a.n,
                                            .k = a.k,
                                            .dy_stride = a.dy_stride != 0 ? a.dy_stride : a.n});
}

void prepare_gradient(Compute&, const PrepareGradientArgs&) {}

}  // namespace rl::cuda
