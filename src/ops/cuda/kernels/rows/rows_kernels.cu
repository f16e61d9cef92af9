// A row is copied in the largest units that divide its sizes and the addresses.
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

template <typename Unit>
RL_KERNEL void copy_columns_kernel(CopyColumnsParams p) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(Unit));
  const int64_t from_width = p.from_row_bytes / kUnit, to_width = p.to_row_bytes / kUnit;
  for_each_in_row(p.bytes / kUnit, [&](int64_t row, int64_t i) {
    static_cast<Unit*>(p.to)[row * to_width + i] =
        static_cast<const Unit*>(p.from)[row * from_width + i];
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

// Calls visit with a value of the largest unit that divides the sizes and addresses, which `bits`
// has the bits of.
template <typename Visit>
void with_unit(uint64_t bits, const Visit& visit) {
  if (bits % sizeof(uint64_t) == 0) return visit(uint64_t{});
  if (bits % sizeof(uint32_t) == 0) return visit(uint32_t{});
  visit(static_cast<unsigned char>(0));
}
uint64_t bits_of(const void* from, const void* to) {
  return reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
}

}  // namespace

void gather_rows(cudaStream_t stream, const GatherRowsParams& p) {
  const auto bytes = static_cast<uint64_t>(p.row_bytes);
  with_unit(bits_of(p.from, p.to) | bytes, [&]<typename Unit>(Unit) {
    launch("gather_rows", gather_rows_kernel<Unit>,
           row_blocks(p.count, static_cast<int64_t>(bytes / sizeof(Unit))), stream, p);
  });
}
void copy_columns(cudaStream_t stream, const CopyColumnsParams& p) {
  const auto bytes = static_cast<uint64_t>(p.bytes);
  const uint64_t widths = static_cast<uint64_t>(p.from_row_bytes | p.to_row_bytes);
  with_unit(bits_of(p.from, p.to) | widths | bytes, [&]<typename Unit>(Unit) {
    launch("copy_columns", copy_columns_kernel<Unit>,
           row_blocks(p.rows, static_cast<int64_t>(bytes / sizeof(Unit))), stream, p);
  });
}
void add_runs(cudaStream_t stream, const AddRunsParams& params) {
  launch("add_runs", add_runs_kernel, row_blocks(params.runs.count, params.width), stream, params);
}
void add_scaled_vector(cudaStream_t stream, const AddScaledVectorParams& params) {
  launch("add_scaled_vector", add_scaled_vector_kernel, row_blocks(params.runs.count, params.width),
         stream, params);
}

}  // namespace rl::cuda
