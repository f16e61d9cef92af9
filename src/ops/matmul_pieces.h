// The tasks of a product of few rows: pieces of its column slices, as wide as a packed column block (ops/few_rows.h). A
// product of a few microseconds in as few tasks as it has slices ends when the slowest thread does.
#pragma once
#include "ops/few_rows.h"
#include "ops/matmul.h"

namespace rl {

// Columns of a slice: one range, or one of each half, which stand side by side in the piece's output.
struct Piece {
  int64_t slice;
  int64_t col0, cols;    // of y, as the epilogue sees them
  int64_t first, width;  // of a range, in its part of the slice
  int64_t parts;
};

class Pieces {
 public:
  explicit Pieces(const PackedMatrix& w)
      : w_(w), slices_(w.shape_.slices), parts_(std::max<int64_t>(1, w.shape_.cut.parts)), in_slice_(in_slice(0)) {}

  int64_t count() const {
    const int64_t last = slices_.count() - 1;
    return last * in_slice_ + (in_slice_ == 1 ? 1 : in_slice(last));
  }
  Piece at(int64_t index) const {
    const int64_t slice = index / in_slice_, whole = slices_.size(slice);
    if (in_slice_ == 1 || in_slice(slice) == 1) return {slice, slices_.first(slice), whole, 0, whole, 1};
    const int64_t first = index % in_slice_ * kFewRowsColumnBlock;
    const int64_t width = std::min(kFewRowsColumnBlock, whole / parts_ - first);
    return {slice, slices_.first(slice) + parts_ * first, parts_ * width, first, width, parts_};
  }
  // Where the weights of a range of a piece begin.
  const std::byte* weights(const Piece& p, int64_t part) const {
    const int64_t block = (part * (slices_.size(p.slice) / p.parts) + p.first) / kFewRowsColumnBlock;
    return w_.data_ + w_.shape_.slice_offset[p.slice] + block * few_rows_block_bytes(w_.shape_.k);
  }

 private:
  int64_t in_slice(int64_t slice) const {
    const SliceCut& cut = w_.shape_.cut;
    const int64_t width = slices_.size(slice) / parts_;
    const bool whole_units = parts_ == 1 ? kFewRowsColumnBlock % cut.unit == 0 : width % kFewRowsColumnBlock == 0;
    if (w_.few_rows_chunk_ == 0 || cut.parts == 0 || !whole_units) return 1;
    return (width + kFewRowsColumnBlock - 1) / kFewRowsColumnBlock;
  }

  const PackedMatrix& w_;
  const ColumnSlices& slices_;
  const int64_t parts_, in_slice_;
};

}  // namespace rl
