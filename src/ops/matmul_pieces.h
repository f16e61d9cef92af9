// The tasks of a product of few rows: pieces of its column slices, as wide as a packed column block (ops/few_rows.h). A
// product of a few microseconds in as few tasks as it has slices ends when the slowest thread does.
#pragma once
#include "ops/few_rows.h"
#include "ops/matmul.h"

namespace rl {

// Columns of a slice: one range, or one of each half, which stand side by side in the piece's output.
struct Piece {
  int64_t slice;
  int64_t col0, cols;  // of y, as the epilogue sees them
  int64_t first, width;  // of a range, in its part of the slice
  int64_t parts;
};

class Pieces {
 public:
  explicit Pieces(const PackedMatrix& w) : w_(w), parts_(w.shape_.cut == SliceCut::kHalves ? 2 : 1) {}

  int64_t count() const {
    const ColumnSlices& slices = w_.shape_.slices;
    const int64_t last = slices.count() - 1;
    return last * in_slice(0) + in_slice(last);
  }
  Piece at(int64_t index) const {
    const ColumnSlices& slices = w_.shape_.slices;
    const int64_t slice = index / in_slice(0), i = index % in_slice(0), whole = slices.size(slice);
    if (in_slice(slice) == 1) return {slice, slices.first(slice), whole, 0, whole, 1};
    const int64_t first = i * kFewRowsColumnBlock, width = std::min(kFewRowsColumnBlock, whole / parts_ - first);
    return {slice, slices.first(slice) + parts_ * first, parts_ * width, first, width, parts_};
  }
  // Where the weights of a range of a piece begin.
  const std::byte* weights(const Piece& p, int64_t part) const {
    const int64_t col = part * (w_.shape_.slices.size(p.slice) / p.parts) + p.first;
    return w_.data_ + w_.shape_.slice_offset[p.slice] +
           col / kFewRowsColumnBlock * few_rows_block_bytes(w_.shape_.k);
  }

 private:
  int64_t in_slice(int64_t slice) const {
    const int64_t width = w_.shape_.slices.size(slice) / parts_;
    const bool whole_blocks = parts_ == 1 || width % kFewRowsColumnBlock == 0;
    if (w_.few_rows_chunk_ == 0 || w_.shape_.cut == SliceCut::kNone || !whole_blocks) return 1;
    return (width + kFewRowsColumnBlock - 1) / kFewRowsColumnBlock;
  }

  const PackedMatrix& w_;
  const int64_t parts_;
};

}  // namespace rl
