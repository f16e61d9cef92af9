// From hidden states to log-probs, and the way back. Statistics stay on the device; ids,
// temperatures and gradients of rows come from the host, log-probs and values go to it.
#include <algorithm>

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/head/distill_kernels.h"
#include "ops/cuda/kernels/head/head_gradient.h"
#include "ops/cuda/kernels/head/head_logprob.h"
#include "ops/cuda/kernels/rows/rows_kernels.h"
#include "ops/cuda/products.h"

namespace rl::cuda {
namespace {

// Each part as if it were alone, and then beside the others.
void multiply_parts(CudaCompute& gpu, const HeadLogitsArgs& a, int64_t rows) {
  const int64_t k = a.w.shape().k, all = a.w.shape().slices.n;
  for (size_t i = 0; i + 1 < a.parts.size(); ++i) {
    const int64_t first = a.parts[i], n = a.parts[i + 1] - first;
    const auto bytes = n * int64_t{sizeof(float)}, row_bytes = all * int64_t{sizeof(float)};
    const ProductWeights part(a.w.data() + first * k * gpu.item(), n, k);
    gpu.products().prepare(part);
    const ScratchScope scratch(gpu);
    const int64_t at_once = std::min(rows, gpu.scratch_rows(bytes));
    auto* const y = gpu.scratch<float>(at_once * n);
    for (int64_t row = 0; row < rows; row += at_once) {
      const int64_t count = std::min(at_once, rows - row);
      gpu.products().multiply(part, a.x + row * k * gpu.item(), count, y);
      copy_columns(gpu.stream(), {reinterpret_cast<const std::byte*>(y), bytes,
                                  reinterpret_cast<std::byte*>(a.z + row * all + first), row_bytes,
                                  count, bytes});
    }
  }
}

}  // namespace

void head_logits(Compute& compute, const HeadLogitsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const auto rows = static_cast<int64_t>(a.inv_temperature.size());
  const ColumnSlices& slices = a.w.shape().slices;
  if (rows == 0) return;
  if (a.parts.size() > 2)
    multiply_parts(gpu, a, rows);
  else
    gpu.products().multiply(a.w, a.x, rows, a.z);
  measure_tiles(gpu.stream(), {.z = a.z,
                               .inv_temperature = gpu.upload(a.inv_temperature),
                               .tiles = a.tiles,
                               .rows = rows,
                               .vocab = slices.n,
                               .width = slices.width});
  combine_tiles(gpu.stream(), {a.tiles, a.stats, rows, slices.count()});
}

void combine_tiles(Compute& compute, const CombineTilesArgs& a) {
  combine_tiles(cuda_of(compute).stream(), {a.tiles, a.stats, a.rows, a.count});
}

void head_logprobs(Compute& compute, const HeadLogprobsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const auto rows = static_cast<int64_t>(a.ids.size());
  if (rows == 0) return;
  float* const logprobs = gpu.scratch<float>(rows);
  float* const entropies = a.entropies.empty() ? nullptr : gpu.scratch<float>(rows);
  row_logprobs(gpu.stream(), {.z = a.z,
                              .stats = a.stats,
                              .ids = gpu.upload(a.ids),
                              .logprobs = logprobs,
                              .entropies = entropies,
                              .rows = rows,
                              .vocab = a.vocab});
  gpu.download(logprobs, a.logprobs);
  if (entropies != nullptr) gpu.download(entropies, a.entropies);
}

void distill_rows(Compute& compute, const DistillRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const auto rows = static_cast<int64_t>(a.weight.size());
  if (rows == 0) return;
  double* const value = gpu.scratch<double>(rows);
  distill_rows(gpu.stream(), {.kind = a.params,
                              .coef = a.coef,
                              .weight = gpu.upload(a.weight),
                              .student = a.student,
                              .student_stats = a.student_stats,
                              .teacher = a.teacher,
                              .teacher_stats = a.teacher_stats,
                              .value = value,
                              .rows = rows,
                              .vocab = a.vocab});
  gpu.download(value, a.value);
}

void head_logits_backward(Compute& compute, const HeadLogitsBackwardArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  head_gradient(gpu.stream(), {.z = a.z,
                               .stats = a.stats,
                               .ids = gpu.upload(a.ids),
                               .d_logprob = gpu.upload(a.d_logprob),
                               .d_entropy = gpu.upload(a.d_entropy),
                               .inv_temperature = gpu.upload(a.inv_temperature),
                               .more = a.d_tempered,
                               .d_logits = a.d_logits,
                               .dtype = gpu.dtype(),
                               .rows = static_cast<int64_t>(a.ids.size()),
                               .vocab = a.vocab,
                               .first = a.first,
                               .count = a.count()});
}

}  // namespace rl::cuda
