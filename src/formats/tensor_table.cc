// Lookup by name and bounds checks of row reads.
#include "formats/tensor_table.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

void TensorTable::add(TensorInfo info, const StoredRows& rows, int64_t head_rows) {
  RL_CHECK(by_name_.emplace(info.name, tensors_.size()).second);
  tensors_.push_back(std::move(info));
  places_.push_back(Place{rows, head_rows});
}

int64_t TensorTable::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? -1 : static_cast<int64_t>(it->second);
}

const TensorInfo& TensorTable::tensor(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(tensors_.size())) {
    throw Error(Code::kInvalidArgument, str("tensor index ", index, " of ", tensors_.size()));
  }
  return tensors_[static_cast<size_t>(index)];
}

void TensorTable::read(int64_t index, int64_t first_row, std::span<float> out) const {
  const TensorInfo& t = tensor(index);
  const auto count = static_cast<int64_t>(out.size());
  if (count % t.cols() != 0 || first_row < 0 || first_row > t.rows() - count / t.cols()) {
    throw Error(Code::kInvalidArgument,
                str("tensor ", t.name, " ", shape_text(t.shape), ": ", count, " elements from row ",
                    first_row, " are not rows of it"))
        .with_key(t.name);
  }
  const Place& place = places_[static_cast<size_t>(index)];
  if (place.head_rows > 0) return place.rows.read_interleaved(first_row, place.head_rows, out);
  place.rows.read(first_row, out);
}

void TensorTable::read_block(int64_t index, const TensorBlock& b, std::span<float> out) const {
  const TensorInfo& t = tensor(index);
  const auto inside = [](int64_t first, int64_t count, int64_t size) {
    return first >= 0 && count >= 0 && first <= size - count;
  };
  if (!inside(b.first_row, b.rows, t.rows()) || !inside(b.first_column, b.columns, t.cols()) ||
      static_cast<int64_t>(out.size()) != b.rows * b.columns) {
    throw Error(Code::kInvalidArgument,
                str("tensor ", t.name, " ", shape_text(t.shape), ": ", b.rows, " rows from ",
                    b.first_row, " and ", b.columns, " columns from ", b.first_column,
                    " are not a block of it of ", out.size(), " elements"))
        .with_key(t.name);
  }
  if (b.columns == t.cols()) return read(index, b.first_row, out);
  const Place& place = places_[static_cast<size_t>(index)];
  if (place.head_rows == 0 && place.rows.can_read_columns(b.first_column, b.columns))
    return place.rows.read_columns(b.first_row, b.first_column, b.columns, out);
  std::vector<float> row(static_cast<size_t>(t.cols()));
  for (int64_t r = 0; r < b.rows; ++r) {
    read(index, b.first_row + r, row);
    std::copy_n(row.begin() + b.first_column, b.columns, out.begin() + r * b.columns);
  }
}

Dtype TensorTable::exact_dtype() const {
  const bool bf16 = std::all_of(places_.begin(), places_.end(),
                                [](const Place& p) { return p.rows.type == StoredType::kBf16; });
  return bf16 ? Dtype::kBf16 : Dtype::kF32;
}

}  // namespace rl
