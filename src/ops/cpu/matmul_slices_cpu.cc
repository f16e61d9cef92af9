// Partitioning of GEMMs, and the checks of what it promises.
#include <numeric>

#include "core/error.h"
#include "ops/matmul_slices.h"

namespace rl {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_div(int64_t a, int64_t b) { return (a + b / 2) / b; }

// The widest a slice may be.
int64_t widest(const SliceRule& r) {
  const int64_t tile = kTileFloats / kMaxTileRows;
  return r.cut.parts == 2 ? std::min(tile, kMaxJoinedFloats / r.k) : tile;
}

// The number that slice widths are multiples of.
int64_t slice_unit(const SliceRule& r) {
  const int64_t parts = std::max<int64_t>(1, r.cut.parts);
  const int64_t blocks = std::lcm(r.cut.unit, kSkinnyColumnBlock);
  const bool too_wide = blocks * parts > widest(r) || (r.width != 0 && r.width < blocks * parts);
  return (r.cut.parts == 0 || too_wide ? r.cut.unit : blocks) * parts;
}

int64_t wanted_width(const SliceRule& r) {
  if (r.width != 0) return r.width;
  const int64_t square = kMaxTileRows * std::max<int64_t>(1, r.cut.parts);
  return ceil_div(r.n, std::max<int64_t>(1, round_div(r.n, square)));
}

void check(const SliceRule& r, const ColumnSlices& s, int64_t unit) {
  RL_CHECK(s.n == r.n && s.width > 0 && s.width <= widest(r));
  RL_CHECK(s.count() == 1 || s.width % unit == 0);
  RL_CHECK(s.count() == 1 || unit % r.cut.unit == 0);
  RL_CHECK(r.cut.parts != 2 || (s.width % 2 == 0 && s.size(s.count() - 1) % 2 == 0));
}

}  // namespace

ColumnSlices cut_slices(const SliceRule& r) {
  RL_CHECK(r.k > 0 && r.n > 0 && r.cut.unit > 0 && r.width >= 0);
  const int64_t unit = slice_unit(r), most = widest(r) / unit * unit;
  if (most == 0) {
    throw Error(Code::kUnsupported,
                str("a [", r.k, ", ", r.n, "] product needs slices of ", unit, " columns, but ",
                    widest(r), " fit the scratch of a worker"));
  }
  const int64_t wanted = wanted_width(r);
  const int64_t whole =
      r.width != 0 ? std::max(unit, wanted / unit * unit) : ceil_div(wanted, unit) * unit;
  const ColumnSlices slices = slices_of_width(r.n, std::min(whole, most));
  check(r, slices, unit);
  return slices;
}

ColumnTiles::ColumnTiles(const ColumnSlices& slices, const SliceCut& cut, int64_t threads,
                         bool any_columns)
    : slices_(slices), parts_(std::max<int64_t>(1, cut.parts)), threads_(threads) {
  RL_CHECK(threads > 0 && !(any_columns && cut.parts != 1));
  const int64_t unit = any_columns ? 16 : cut.unit;
  step_ = cut.parts == 0 ? 0 : std::lcm(unit, kSkinnyColumnBlock);
  in_slice_ = in_slice(0);
  const int64_t last = slices_.count() - 1;
  blocks_ = last * in_slice_ + (in_slice_ == 1 ? 1 : in_slice(last));
  const bool whole_blocks = slices_.count() == 1 || slices_.width % kSkinnyColumnBlock == 0;
  if (cut.parts == 1 && step_ == kSkinnyColumnBlock && kHalf % unit == 0 && whole_blocks) halve();
}

// A range that begins inside a column block cannot reach beyond it, so halves of a slice that are
// not whole blocks stay in one tile.
int64_t ColumnTiles::in_slice(int64_t slice) const {
  const int64_t width = slices_.size(slice) / parts_;
  if (step_ == 0 || (parts_ > 1 && width % kSkinnyColumnBlock != 0)) return 1;
  return ceil_div(width, step_);
}

void ColumnTiles::halve() {
  const int64_t beyond = blocks_ % threads_, whole_width = slices_.n / kSkinnyColumnBlock;
  if (beyond == 0 || 2 * beyond > threads_) return;
  each_ = blocks_ / threads_;
  halved_ = std::min(beyond, whole_width);
  first_halved_ = whole_width - halved_;
}

ColumnTile ColumnTiles::whole(int64_t block) const {
  const int64_t slice = block / in_slice_, cols = slices_.size(slice);
  if (in_slice_ == 1 || in_slice(slice) == 1)
    return {slice, slices_.first(slice), cols, 0, cols, 1};
  const int64_t first = block % in_slice_ * step_;
  const int64_t width = std::min(step_, cols / parts_ - first);
  return {slice, slices_.first(slice) + parts_ * first, parts_ * width, first, width, parts_};
}

ColumnTile ColumnTiles::half(int64_t block, int64_t which) const {
  const ColumnTile p = whole(block);
  return {p.slice, p.col0 + which * kHalf, kHalf, p.first + which * kHalf, kHalf, 1};
}

ColumnTile ColumnTiles::at(int64_t index) const {
  if (halved_ == 0) return whole(index);
  if (each_ == 0)
    return index < 2 * halved_ ? half(first_halved_ + index / 2, index % 2)
                               : whole(index - halved_);
  // A thread's share is the blocks that every thread has, plus a half if it is longer than that.
  const int64_t thread = ((index + 1) * threads_ - 1) / count();
  const int64_t begin = share_begin(thread), within = index - begin,
                longer_before = begin - each_ * thread;
  if (within == each_) return half(first_halved_ + longer_before / 2, longer_before % 2);
  const int64_t block = each_ * thread + within;
  return whole(block < first_halved_ ? block : block + halved_);
}

GradientCut cut_gradient(int64_t n, int64_t k) {
  return {cut_slices({.k = k, .n = n}), cut_slices({.k = n, .n = k})};
}

GradientCut cut_packed_gradient(int64_t n, int64_t k) {
  return {cut_slices({.k = k, .n = n}),
          cut_slices({.k = n, .n = k, .cut = {.parts = 1, .unit = kPackedColumns}})};
}

}  // namespace rl
