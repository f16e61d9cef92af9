// Rows of the batch: copied, added to others, and turned into values.
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/gated_kernels.h"
#include "ops/cuda/kernels/rows/rows_kernels.h"
#include "ops/cuda/kernels/rows/values_kernels.h"
#include "ops/cuda/row_runs.h"

namespace rl::cuda {

static_assert(kLanesOfValue == kValueLanes);

void gather_rows(Compute& compute, const GatherRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  gather_rows(gpu.stream(), {a.from, gpu.upload(a.rows), static_cast<int64_t>(a.rows.size()),
                             static_cast<int64_t>(a.row_bytes), a.to});
}

void copy_columns(Compute& compute, const CopyColumnsArgs& a) {
  copy_columns(cuda_of(compute).stream(),
               {a.from, static_cast<int64_t>(a.from_row_bytes), a.to,
                static_cast<int64_t>(a.to_row_bytes), a.rows, static_cast<int64_t>(a.bytes)});
}

void scatter_add_rows(Compute& compute, const ScatterAddRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  add_runs(gpu.stream(), {upload_runs(gpu, a.rows), a.from, a.width, 1.0f, a.to});
}

void value_rows(Compute& compute, const ValueRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const auto count = static_cast<int64_t>(a.rows.size());
  float* const values = gpu.scratch<float>(count);
  value_rows(gpu.stream(),
             {a.hidden, gpu.upload(a.rows), a.w, gpu.dtype(), count, a.width, values});
  gpu.download(values, a.values);
}

void value_rows_backward(Compute& compute, const ValueRowsBackwardArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const float* const d_value = gpu.upload(a.d_value);
  add_scaled_vector(gpu.stream(), {upload_runs(gpu, a.rows), d_value, a.w, a.width, a.d_hidden});
  if (a.grad == nullptr) return;
  value_gradient(gpu.stream(), {a.hidden, gpu.upload(a.rows), d_value, gpu.dtype(),
                                static_cast<int64_t>(a.rows.size()), a.width, a.grad});
}

void glu_rows(Compute& compute, const GluRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  gate_rows(gpu.stream(), {a.gate_up, a.h, gpu.dtype(), a.rows, a.ffn, a.activation});
}

}  // namespace rl::cuda
