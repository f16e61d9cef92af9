// How GEMMs are partitioned: packed matrices into column slices, slices into column tiles (split-N
// tasks) for few rows, weight gradients into tiles. Pure functions of shape (column tiles depend on
// the number of threads too), used alike by the memory plan, by packing and by the GEMMs. Each cut
// checks its own promises.
//
// Slices of another width, a multiple of 16 columns, change no bit of the models in
// tests/model/slice_width_test.cc. oneDNN guarantees this for no shape, and may sum other widths,
// and gradients, in another order; so these cuts follow from shapes alone. Vocabulary tiles have a
// width of their own, because their log-prob sums are added tile by tile.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/gemm_skinny.h"

namespace rl {

// Largest row tile of a product.
constexpr int64_t kMaxTileRows = 256;
// Floats of the tile that a task computes into, in its worker's scratch.
constexpr int64_t kTileFloats = kMaxTileRows * 1024;
// Largest width times K of a slice whose two halves are joined during packing: the size of a
// worker's scratch.
constexpr int64_t kMaxJoinedFloats = (10 << 20) / 4;

// The n output columns of a packed matrix, in slices of equal width; the last one may be narrower.
struct ColumnSlices {
  int64_t n = 0;
  int64_t width = 0;
  int64_t count() const { return (n + width - 1) / width; }
  int64_t first(int64_t slice) const { return slice * width; }
  int64_t size(int64_t slice) const { return std::min(width, n - first(slice)); }
};
// Slices of exactly this width.
constexpr ColumnSlices slices_of_width(int64_t n, int64_t width) { return {n, std::min(n, width)}; }

// How a slice may be split into tasks: not at all (parts 0), at any multiple of `unit` columns (1),
// or into matching column ranges of its two halves, side by side (2); packing joins the halves.
// Slice widths are multiples of `unit` (per half) and, if slices may be split, of a column block
// too, unless that is too wide.
struct SliceCut {
  int64_t parts = 0;
  int64_t unit = 16;
};

// A GEMM with inner dimension k and n output columns.
struct SliceRule {
  int64_t k, n;
  SliceCut cut = {};
  int64_t width = 0;  // most columns of a slice, at least one unit; 0: chosen from the shape
};
// Without a width: about one slice per kMaxTileRows columns of n (of each half, with two parts),
// all equally wide. Throws Error(kUnsupported) if a single unit breaks the limits above.
ColumnSlices cut_slices(const SliceRule& rule);

// Columns of a slice: one range, or one range per half, adjacent in the tile's output.
struct ColumnTile {
  int64_t slice;
  int64_t col0, cols;    // of y, as the epilogue sees them
  int64_t first, width;  // of a range, within its part of the slice
  int64_t parts;
};

// The tasks of a skinny GEMM: whole units and column blocks of its slices. With one task per slice
// a GEMM of a few microseconds would wait for its slowest thread. If whole blocks would give at
// most half of the threads one block more than the others, these extra blocks are halved: two
// threads then have one half each on top of what all have.
class ColumnTiles {
 public:
  // any_columns: the consumer of the tiles accepts columns that are not whole units.
  ColumnTiles(const ColumnSlices& slices, const SliceCut& cut, int64_t threads,
              bool any_columns = false);

  int64_t count() const { return blocks_ + halved_; }
  ColumnTile at(int64_t index) const;

 private:
  static constexpr int64_t kHalf = kSkinnyColumnBlock / 2;
  int64_t in_slice(int64_t slice) const;
  void halve();
  ColumnTile whole(int64_t block) const;
  ColumnTile half(int64_t block, int64_t which) const;
  int64_t share_begin(int64_t thread) const { return count() * thread / threads_; }

  ColumnSlices slices_;
  int64_t parts_, step_, threads_;
  int64_t in_slice_ = 1, blocks_ = 0;
  int64_t halved_ = 0, first_halved_ = 0;  // consecutive blocks
  int64_t each_ = 0;                       // whole blocks per thread, if some are halved
};

// A tile of a weight gradient [n, k], computed by one task.
struct GradientTile {
  int64_t n0, n, k0, k;
};
// About kMaxTileRows square, so that few values are packed per product. The tile and one row chunk
// of both operands take 0.75 MiB in bf16 and 1.25 MiB in fp32; 1.3 and 2.1 MiB at the largest side,
// 384.
struct GradientCut {
  ColumnSlices n, k;
  int64_t count() const { return n.count() * k.count(); }
  // Neighbouring tasks share columns of dy.
  GradientTile at(int64_t task) const {
    const int64_t i = task / k.count(), j = task % k.count();
    return {n.first(i), n.size(i), k.first(j), k.size(j)};
  }
};
GradientCut cut_gradient(int64_t n, int64_t k);

// The K dimension of a gradient is the rows of the batch. They go through kernels of fixed K:
// chunks of the most rows, then the rest in decreasing powers of two. rows_left is a multiple of
// kGradientRowUnit.
constexpr int64_t kGradientChunkRows = 512, kGradientRowUnit = 32;
constexpr int64_t gradient_chunk_rows(int64_t rows_left, int64_t most = kGradientChunkRows) {
  int64_t rows = most;
  while (rows > rows_left) rows /= 2;
  return rows;
}

// A gradient from packed operands (matmul_packed_gradient.cc): columns of x in whole blocks of
// kPackedColumns, so that no packed block has padding that oneDNN would write, except after the
// last column; chunks of half as many rows, which are summed in the same order.
constexpr int64_t kPackedColumns = 64, kPackedChunkRows = 256;
GradientCut cut_packed_gradient(int64_t n, int64_t k);

// Row stride, in floats, of a tile operand that is copied into contiguous rows: more than its
// columns, and an odd number of cache lines, so that the rows spread over all L1 sets.
constexpr int64_t staged_stride(int64_t columns) {
  const int64_t lines = (columns + 15) / 16 + 1;
  return (lines + 1 - lines % 2) * 16;
}

}  // namespace rl
