// Rows of a batch: which part of its arrays a task reads and writes.
#pragma once
#include "ops/forward_ops.h"

namespace rl {

struct RowSpan {
  int64_t first, count;
};
// Whole rows of an array of `width` columns.
struct RowBlock {
  int64_t row0, rows, width;
};

// The same for some rows, whose projection is at qkv.
inline RopeKvArgs rows_of(const RopeKvArgs& all, const RowSpan& rows, const float* qkv) {
  const int64_t q_row =
      all.shape.heads * all.shape.padded_dim() * static_cast<int64_t>(dtype_bytes(all.shape.dtype));
  RopeKvArgs part = all;
  part.qkv = qkv;
  part.places = all.places + rows.first;
  part.q = static_cast<std::byte*>(all.q) + rows.first * q_row;
  part.rows = rows.count;
  return part;
}

// The norm of some rows of x.
inline RmsNormArgs rows_of(const NextNorm& all, const float* x, Dtype dtype,
                           const RowBlock& block) {
  const int64_t at = block.row0 * block.width, item = static_cast<int64_t>(dtype_bytes(dtype));
  return {x + at,     all.norm.weight, all.y + at * item, dtype,
          block.rows, block.width,     all.norm.eps,      all.norm.kind};
}

}  // namespace rl
