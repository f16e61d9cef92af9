// How the products are cut: column slices of packed matrices, pieces of slices for few rows, tasks
// of weight gradients. Pure functions of shapes (pieces follow the number of threads as well),
// asked by the memory plan, by packing and by the products alike. What a cut promises is checked
// where it is made.
//
// Another width of slices, a multiple of 16 columns, moves no bit of the models in
// tests/model/slice_width_test.cc. oneDNN promises that of no shape, and may sum other widths, and
// gradients, in another order: these cuts follow from shapes alone. Vocabulary tiles have a width
// of their own, as their log-prob sums are added tile by tile.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ops/few_rows.h"

namespace rl {

// Largest row tile of a product.
constexpr int64_t kMaxTileRows = 256;
// Floats of the tile that a task computes into, in its worker's scratch.
constexpr int64_t kTileFloats = kMaxTileRows * 1024;
// Largest width times depth of a slice whose two halves are joined while it is packed: what a
// worker's scratch holds.
constexpr int64_t kMaxJoinedFloats = (10 << 20) / 4;

// The n output columns of a packed matrix in slices of one width; the last one may be narrower.
struct ColumnSlices {
  int64_t n = 0;
  int64_t width = 0;
  int64_t count() const { return (n + width - 1) / width; }
  int64_t first(int64_t slice) const { return slice * width; }
  int64_t size(int64_t slice) const { return std::min(width, n - first(slice)); }
};
// Slices of exactly this width.
constexpr ColumnSlices slices_of_width(int64_t n, int64_t width) { return {n, std::min(n, width)}; }

// What an epilogue can take of a slice: the whole (parts 0), any whole units of its columns (1), or
// the same whole units of its two halves, side by side (2), which packing joins. Slices are whole
// units (of each half), and where they may be cut whole column blocks as well, unless these are too
// wide.
struct SliceCut {
  int64_t parts = 0;
  int64_t unit = 16;
};

// A product of depth k into n columns.
struct SliceRule {
  int64_t k, n;
  SliceCut cut = {};
  int64_t width =
      0;  // columns of a slice at most, but at least one unit; 0: what the shape asks for
};
// Without a width: as many slices as there are squares of kMaxTileRows columns in n (in each half,
// with two parts), evenly. Throws Error(kUnsupported) when a single unit breaks the limits above.
ColumnSlices cut_slices(const SliceRule& rule);

// Columns of a slice: one range, or one of each half, which stand side by side in the piece's
// output.
struct Piece {
  int64_t slice;
  int64_t col0, cols;    // of y, as the epilogue sees them
  int64_t first, width;  // of a range, in its part of the slice
  int64_t parts;
};

// The tasks of a product of few rows: whole units and column blocks of its slices. A product of a
// few microseconds in as few tasks as it has slices ends when the slowest thread does. Where whole
// blocks would give some threads one more than others, and at most every second one, these blocks
// are halved: two threads have one half each beyond what all have.
class Pieces {
 public:
  // any_columns: what takes the pieces does not ask for units.
  Pieces(const ColumnSlices& slices, const SliceCut& cut, int64_t threads,
         bool any_columns = false);

  int64_t count() const { return blocks_ + halved_; }
  Piece at(int64_t index) const;

 private:
  static constexpr int64_t kHalf = kFewRowsColumnBlock / 2;
  int64_t in_slice(int64_t slice) const;
  void halve();
  Piece whole(int64_t block) const;
  Piece half(int64_t block, int64_t which) const;
  int64_t share_begin(int64_t thread) const { return count() * thread / threads_; }

  ColumnSlices slices_;
  int64_t parts_, step_, threads_;
  int64_t in_slice_ = 1, blocks_ = 0;
  int64_t halved_ = 0, first_halved_ = 0;  // consecutive blocks
  int64_t each_ = 0;  // blocks that every thread has whole, where some are halved
};

// A tile of a weight gradient [n, k], computed by one task.
struct GradientTile {
  int64_t n0, n, k0, k;
};
// Squares of about kMaxTileRows a side: few values are packed for a product. The tile and a depth
// piece of both operands take 0.75 MiB in bf16 and 1.25 MiB in fp32; 1.3 and 2.1 MiB where the
// sides are the largest, 384.
struct GradientCut {
  ColumnSlices n, k;
  int64_t count() const { return n.count() * k.count(); }
  // Neighbours share columns of dy.
  GradientTile at(int64_t task) const {
    const int64_t i = task / k.count(), j = task % k.count();
    return {n.first(i), n.size(i), k.first(j), k.size(j)};
  }
};
GradientCut cut_gradient(int64_t n, int64_t k);

// Rows of a gradient's depth go through kernels of fixed depths: whole pieces of kDepthPiece rows,
// then what is left in ever smaller powers of two. `depth` is a multiple of kDepthUnit.
constexpr int64_t kDepthPiece = 512, kDepthUnit = 32;
constexpr int64_t depth_piece(int64_t depth_left) {
  int64_t piece = kDepthPiece;
  while (piece > depth_left) piece /= 2;
  return piece;
}

// Floats from row to row of a tile's operand that is copied side by side: more than its columns,
// and an odd number of cache lines, so that the rows spread over all sets of a first-level cache.
constexpr int64_t staged_stride(int64_t columns) {
  const int64_t lines = (columns + 15) / 16 + 1;
  return (lines + 1 - lines % 2) * 16;
}

}  // namespace rl
