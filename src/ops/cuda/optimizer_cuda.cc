// An optimizer step over flat arrays of the device.
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/optimizer_kernels.h"

namespace rl::cuda {

static_assert(kSquaresChunk == kOptimizerChunk);

// The values are memory of the device; the sums go to the host, which adds them in order.
void squared_norm(Compute& compute, const SquaredNormArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  double* const sums = gpu.scratch<double>(static_cast<int64_t>(a.chunk_sums.size()));
  chunk_squares(gpu.stream(), {a.values.data(), static_cast<int64_t>(a.values.size()), sums});
  gpu.download(sums, a.chunk_sums);
  a.sum = 0;
  for (const double sum : a.chunk_sums) a.sum += sum;
}

// All four arrays are memory of the device.
void adamw(Compute& compute, const AdamwArgs& a) {
  const size_t count = a.all.param.size();
  RL_CHECK(a.all.m.size() == count && a.all.v.size() == count && a.all.grad.size() == count);
  adamw(cuda_of(compute).stream(), {a.step, a.all.param.data(), a.all.m.data(), a.all.v.data(),
                                    a.all.grad.data(), static_cast<int64_t>(count)});
}

}  // namespace rl::cuda
