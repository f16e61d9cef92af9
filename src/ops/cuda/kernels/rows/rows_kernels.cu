// A row is copied in the largest units that divide its size and the addresses.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/rows_kernels.h"

namespace rl::cuda {
namespace {

template <typename Unit>
RL_KERNEL void gather_rows_kernel(GatherRowsParams p) {
  const auto width = static_cast<int64_t>(p.row_bytes / sizeof(Unit));
  for_each_in_row(width, [&](int64_t row, int64_t i) {
    static_cast<Unit*>(p.to)[row * width + i] =
        static_cast<const Unit*>(p.from)[p.rows[row] * width + i];
  });
}

// Adds term(entry, column) for every entry of the run.
template <typename Term>
RL_DEVICE void add_run(const Runs& runs, int64_t run, float* to, const Term& term) {
  float sum = *to;
  for (int32_t i = runs.starts[run]; i < runs.starts[run + 1]; ++i) sum += term(runs.entries[i]);
  *to = sum;
}

RL_KERNEL void add_runs_kernel(AddRunsParams p) {
  for_each_in_row(p.width, [&](int64_t run, int64_t column) {
    add_run(p.runs, run, p.to + p.runs.rows[run] * p.width + column,
            [&](int64_t entry) { return p.from[entry * p.width + column] * p.scale; });
  });
}

RL_KERNEL void add_scaled_vector_kernel(AddScaledVectorParams p) {
  for_each_in_row(p.width, [&](int64_t run, int64_t column) {
    add_run(p.runs, run, p.to + p.runs.rows[run] * p.width + column,
            [&](int64_t entry) { return p.factor[entry] * p.w[column]; });
  });
}

template <typename Unit>
void gather_units(cudaStream_t stream, const GatherRowsParams& p) {
  launch("gather_rows", gather_rows_kernel<Unit>,
         row_blocks(p.count, static_cast<int64_t>(p.row_bytes / sizeof(Unit))), stream, p);
}

}  // namespace

void gather_rows(cudaStream_t stream, const GatherRowsParams& params) {
  const uint64_t bits = static_cast<uint64_t>(params.row_bytes) |
                        reinterpret_cast<uintptr_t>(params.from) |
                        reinterpret_cast<uintptr_t>(params.to);
  if (bits % sizeof(uint64_t) == 0) return gather_units<uint64_t>(stream, params);
  if (bits % sizeof(uint32_t) == 0) return gather_units<uint32_t>(stream, params);
  return gather_units<unsigned char>(stream, params);
}
void add_runs(cudaStream_t stream, const AddRunsParams& params) {
  launch("add_runs", add_runs_kernel, row_blocks(params.runs.count, params.width), stream, params);
}
void add_scaled_vector(cudaStream_t stream, const AddScaledVectorParams& params) {
  launch("add_scaled_vector", add_scaled_vector_kernel, row_blocks(params.runs.count, params.width),
         stream, params);
}

}  // namespace rl::cuda
