// Devices only bind; how a matrix is packed is theirs.
#include "ops/packed_matrix.h"

#include "core/arena.h"
#include "core/checked.h"
#include "core/error.h"

namespace rl {

PackedShape shape_of_rows(const SliceRule& rule, Dtype dtype) {
  const auto rows = static_cast<uint64_t>(rule.n);
  const CheckedU64 row_bytes =
      CheckedU64(static_cast<uint64_t>(rule.k)) * CheckedU64(dtype_bytes(dtype));
  PackedShape shape;
  shape.k = rule.k;
  shape.slices = cut_slices(rule);
  shape.cut = rule.cut;
  shape.bytes = (row_bytes * CheckedU64(rows)).align_up(ArenaPlan::kAlignment).get();
  for (int64_t slice = 0; slice < shape.slices.count(); ++slice)
    shape.slice_offset.push_back(row_bytes.get() *
                                 static_cast<uint64_t>(shape.slices.first(slice)));
  return shape;
}

void PackedMatrix::bind(const PackedShape& shape, std::byte* data) {
  RL_CHECK(data_ == nullptr || data_ == data);
  shape_ = shape;
  data_ = data;
}

}  // namespace rl
