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
      : w_(w), slices_(w.shape_.slices), parts_(std::max<int64_t>(1, w.shape_.cut.parts)), in_slice_(in_slice(0)),
        blocks_(count_blocks()), halved_(halves_middle() ? blocks_ / 2 : blocks_) {}

  int64_t count() const { return blocks_ + (halved_ < blocks_ ? 1 : 0); }
  Piece at(int64_t index) const {
    const bool beyond = index > halved_;
    const int64_t block = beyond ? index - 1 : index;
    const Piece piece = whole(block);
    if (block != halved_) return piece;
    const int64_t skipped = beyond ? kHalf : 0;
    return {piece.slice, piece.col0 + skipped, kHalf, piece.first + skipped, kHalf, 1};
  }
  // Where the weights of a range of a piece begin.
  const std::byte* weights(const Piece& p, int64_t part) const {
    const int64_t column = part * (slices_.size(p.slice) / p.parts) + p.first;
    const int64_t block = column / kFewRowsColumnBlock, within = column % kFewRowsColumnBlock;
    return w_.data_ + w_.shape_.slice_offset[p.slice] + block * few_rows_block_bytes(w_.shape_.k) +
           within * kFewRowsColumnBytes;
  }

 private:
  static constexpr int64_t kHalf = kFewRowsColumnBlock / 2;

  int64_t in_slice(int64_t slice) const {
    const SliceCut& cut = w_.shape_.cut;
    const int64_t width = slices_.size(slice) / parts_;
    const bool whole_units = parts_ == 1 ? kFewRowsColumnBlock % cut.unit == 0 : width % kFewRowsColumnBlock == 0;
    if (w_.few_rows_chunk_ == 0 || cut.parts == 0 || !whole_units) return 1;
    return (width + kFewRowsColumnBlock - 1) / kFewRowsColumnBlock;
  }
  int64_t count_blocks() const {
    const int64_t last = slices_.count() - 1;
    return last * in_slice_ + (in_slice_ == 1 ? 1 : in_slice(last));
  }
  Piece whole(int64_t block) const {
    const int64_t slice = block / in_slice_, cols = slices_.size(slice);
    if (in_slice_ == 1 || in_slice(slice) == 1) return {slice, slices_.first(slice), cols, 0, cols, 1};
    const int64_t first = block % in_slice_ * kFewRowsColumnBlock;
    const int64_t width = std::min(kFewRowsColumnBlock, cols / parts_ - first);
    return {slice, slices_.first(slice) + parts_ * first, parts_ * width, first, width, parts_};
  }
  // Of an odd number of blocks the middle one is two pieces, so that two threads have the same to do.
  bool halves_middle() const {
    const SliceCut& cut = w_.shape_.cut;
    return cut.parts == 1 && kHalf % cut.unit == 0 && in_slice_ > 1 && blocks_ % 2 == 1 &&
           whole(blocks_ / 2).width == kFewRowsColumnBlock;
  }

  const PackedMatrix& w_;
  const ColumnSlices& slices_;
  const int64_t parts_, in_slice_, blocks_, halved_;
};

}  // namespace rl
