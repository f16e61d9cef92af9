// GEMMs of the model: y = x W^T with weights packed once per version, and gradient accumulation dW
// += dy^T x. Nothing else calls oneDNN (onednn_handles.h, matmul_impl.h). Few rows go through
// librl's own kernels (ops/gemm_skinny.h) where these were measured to give oneDNN's bits.
//
// Contract
// - Inputs are of the compute dtype, accumulation and output are fp32. x is readable up to
//   padded_rows(m) rows (the contents do not matter).
// - Exactness (N1): with exact() true, an output element depends only on its row of x and its
//   column of W; not on the number of rows, the row's place, the thread count or the epilogue. A
//   self-check at construction measures it.
// - Work is split into tasks (row tile x column slice) by shape alone. Each task computes a dense
//   fp32 tile in its worker's scratch and passes it to the epilogue, which stores it. Few rows use
//   smaller tasks, column tiles of a slice, if the epilogue allows it.
// - Reduction order along K is oneDNN's for the one chosen implementation.
// - Weight gradients are summed over the rows of the call in chunks: as many of 512 rows as fit,
//   then at most one each of 256, 128, 64 and 32 (the last padded with zeros). Each chunk is summed
//   in oneDNN's order and added to the gradient, chunk after chunk. Gradient tiles and chunk sizes
//   follow from shapes alone.
// - Gradient kernels are a fixed set per weight shape, whatever the number of rows:
//   prepare_weight_grad() makes them all, and no later call makes one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/executor.h"
#include "ops/packed_matrix.h"

namespace rl {

// Device::plan_packed() of the CPU. Only queries oneDNN and allocates nothing but descriptors.
// Throws Error(kResourceExhausted) if oneDNN needs more scratch than a worker has.
PackedShape plan_packed(const SliceRule& rule, Dtype compute);

// A finished block of y: rows [row0, row0+rows) and columns [col0, col0+cols).
struct MatmulTile {
  int64_t row0, rows;
  int64_t col0, cols;
  int64_t slice;
  float* data;
  int64_t stride;  // floats between rows
  int worker;
};
using MatmulEpilogue = FunctionRef<void(const MatmulTile&)>;
// The rows of y, `stride` floats apart.
struct MatmulOutput {
  float* y;
  int64_t stride;
};

class Matmul {
 public:
  // Largest row tile.
  static constexpr int64_t kMaxRows = kMaxTileRows;

  // ledger counts the scratch and the arenas of the models that use this object; null: not counted.
  Matmul(Executor& executor, Dtype compute, ArenaLedger* ledger = nullptr);
  ~Matmul();
  Matmul(const Matmul&) = delete;

  Dtype compute_dtype() const;
  bool exact() const;
  const std::string& implementation() const;  // the chosen kernel's name, for build info and errors
  Executor& executor() const;
  ArenaLedger* ledger() const;
  // Bytes of scratch the object holds for all workers; part of the memory plan.
  static uint64_t workspace_bytes(int num_threads);
  // K chunk of the skinny kernel for this matrix (ops/gemm_skinny.h); 0: oneDNN computes it.
  static int64_t skinny_chunk(const PackedMatrix& w);

  // One source of a packed column range: `count` rows of k floats each, starting at w.
  struct RowRange {
    const float* w;
    int64_t count;
  };
  // Packs y = x W^T: column slice s takes its columns from ranges(s, worker), in order. The
  // returned ranges are read before the same worker calls again. Repacking reuses the slices'
  // objects. If a slice has several ranges, they hold at most kMaxJoinedFloats together.
  void pack_rows(const PackedShape& shape, std::byte* bytes,
                 FunctionRef<std::vector<RowRange>(int64_t slice, int worker)> ranges,
                 PackedMatrix& out);
  // Room for `count` rows of k floats each.
  struct RowTarget {
    float* w;
    int64_t count;
  };
  // The way back: the columns of slice s, each a row of k values of the compute dtype, go to
  // targets(s), in order.
  void unpack_rows(const PackedMatrix& w,
                   FunctionRef<std::vector<RowTarget>(int64_t slice)> targets);
  // Packs y = x W: w is [k, n] fp32, row-major (the backward form of a [k, n] weight).
  void pack_columns(const PackedShape& shape, std::byte* bytes, const float* w, PackedMatrix& out);

  // y = x W^T (or x W) for m dense rows of x [m, k]. The epilogue gets each tile dense, in its
  // worker's scratch. `next` is the matrix that will be read after w, or null: its first weights
  // are prefetched as the work ends.
  void run(const PackedMatrix& w, const void* x, int64_t m, MatmulEpilogue epilogue,
           const PackedMatrix* next = nullptr);
  // The same, but tiles are written straight to their place in y; the epilogue may change them
  // there.
  void run_into(const MatmulOutput& out, const PackedMatrix& w, const void* x, int64_t m,
                const PackedMatrix* next = nullptr);
  void run_into(const MatmulOutput& out, const PackedMatrix& w, const void* x, int64_t m,
                MatmulEpilogue epilogue, const PackedMatrix* next = nullptr);

  // grad[n, k] += dy^T x over rows [0, m). dy is [m, dy_stride] (first n columns used), x is [m, k]
  // dense, both of the compute dtype; rows m..padded_gradient_rows(m) of both must be zero.
  struct WeightGrad {
    const void* dy;
    int64_t dy_stride;
    const void* x;
    int64_t m, n, k;
    float* grad;
  };
  void accumulate_weight_grad(const WeightGrad& args);
  // Makes every kernel that gradients [n, k] with this stride will need.
  void prepare_weight_grad(int64_t n, int64_t k, int64_t dy_stride);
  // Kernels that oneDNN has made for this object so far.
  int64_t kernels_made() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl
