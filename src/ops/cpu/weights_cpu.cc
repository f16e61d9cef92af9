// Filling and copying memory.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"

namespace rl {
namespace {

using Range = Matmul::RowRange;
using Target = Matmul::RowTarget;

// The rows of W that a worker packs, in memory or read into the worker's staging buffer.
class PackedRows {
 public:
  PackedRows(const PackRowsArgs& args, int worker)
      : a_(args),
        staging_(args.rows ? nullptr : args.staging.data() + worker * args.staging_floats) {}

  // Rows on from `first`; those that are read go to float `at` of the staging buffer.
  Range get(int64_t first, int64_t count, int64_t at) const {
    const int64_t k = a_.shape.k;
    if (a_.rows) return {a_.rows + first * k, count};
    RL_CHECK(at + count * k <= a_.staging_floats);
    (*a_.read)(a_.from + first * k, {staging_ + at, static_cast<size_t>(count * k)});
    return {staging_ + at, count};
  }

 private:
  const PackRowsArgs& a_;
  float* const staging_;
};

}  // namespace

namespace cpu {

void read_floats(Compute& compute, const ReadFloatsArgs& a) {
  cpu_of(compute).executor().parallel_for(static_cast<int64_t>(a.runs.size()), [&](int64_t i, int) {
    const FloatRun& run = a.runs[i];
    if (a.read == nullptr) {
      std::copy_n(a.from + run.from, run.count, run.to);
    } else {
      (*a.read)(run.from, {run.to, static_cast<size_t>(run.count)});
    }
  });
}

void pack_rows(Compute& compute, const PackRowsArgs& a) {
  const ColumnSlices& slices = a.shape.slices;
  const bool joined = a.shape.cut.parts == 2;
  cpu_of(compute).matmul().pack_rows(
      a.shape, a.bytes,
      [&](int64_t slice, int worker) {
        const PackedRows rows(a, worker);
        const int64_t first = slices.first(slice), count = slices.size(slice);
        if (!joined) return std::vector<Range>{rows.get(first, count, 0)};
        const int64_t half = slices.n / 2;
        return std::vector<Range>{rows.get(first / 2, count / 2, 0),
                                  rows.get(half + first / 2, count / 2, count / 2 * a.shape.k)};
      },
      a.out);
}

void pack_columns(Compute& compute, const PackColumnsArgs& a) {
  cpu_of(compute).matmul().pack_columns(a.shape, a.bytes, a.w, a.out);
}

void unpack_rows(Compute& compute, const UnpackRowsArgs& a) {
  const PackedShape& shape = a.from.shape();
  const ColumnSlices& slices = shape.slices;
  const bool joined = shape.cut.parts == 2;
  cpu_of(compute).matmul().unpack_rows(a.from, [&](int64_t slice) {
    const int64_t first = slices.first(slice), count = slices.size(slice);
    if (!joined) return std::vector<Target>{{a.rows + first * shape.k, count}};
    float* const half = a.rows + slices.n / 2 * shape.k;
    return std::vector<Target>{{a.rows + first / 2 * shape.k, count / 2},
                               {half + first / 2 * shape.k, count / 2}};
  });
}

void prepare_gradient(Compute& compute, const PrepareGradientArgs& a) {
  cpu_of(compute).matmul().prepare_weight_grad(a.n, a.k, a.dy_stride != 0 ? a.dy_stride : a.n);
}

void zero_floats(Compute& compute, const ZeroFloatsArgs& a) {
  constexpr int64_t kFloatsPerTask = 1 << 16;
  cpu_of(compute).for_chunks(a.count, kFloatsPerTask, [&](int64_t first, int64_t count, int64_t) {
    std::fill_n(a.to + first, count, 0.0f);
  });
}

void copy_bytes(Compute&, const CopyBytesArgs& a) { std::memcpy(a.to, a.from, a.bytes); }

void copy_columns(Compute&, const CopyColumnsArgs& a) {
  if (a.bytes == 0) return;
  for (int64_t i = 0; i < a.rows; ++i) {
    const auto row = static_cast<uint64_t>(i);
    std::memcpy(a.to + row * a.to_row_bytes, a.from + row * a.from_row_bytes, a.bytes);
  }
}

}  // namespace cpu
}  // namespace rl
