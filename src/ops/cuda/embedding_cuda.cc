// Embedding rows and their gradient. The gradient of a vocabulary row is a run of tokens in order.
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/norm_kernels.h"
#include "ops/cuda/kernels/rows/rows_kernels.h"
#include "ops/cuda/norm_cuda.h"
#include "ops/cuda/row_runs.h"

namespace rl::cuda {

void embed_rows(Compute& compute, const EmbedRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  embed_rows(gpu.stream(), {a.table, gpu.upload(a.ids), a.scale, a.x, norm_params(a.then.norm),
                            a.then.y, gpu.dtype(), static_cast<int64_t>(a.ids.size()), a.hidden});
}

void embed_rows_backward(Compute& compute, const EmbedRowsBackwardArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  add_runs(gpu.stream(), {upload_runs(gpu, a.ids), a.dx, a.hidden, a.scale, a.grad});
}

}  // namespace rl::cuda
