// What a source does that cannot read less than rows.
#include "formats/weight_source.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

void WeightSource::read_block(int64_t index, const TensorBlock& b, std::span<float> out) const {
  RL_CHECK(index >= 0 && index < static_cast<int64_t>(tensors().size()));
  const int64_t columns = tensors()[static_cast<size_t>(index)].cols();
  RL_CHECK(b.first_column >= 0 && b.first_column + b.columns <= columns);
  RL_CHECK(static_cast<int64_t>(out.size()) == b.rows * b.columns);
  if (b.columns == columns) return read(index, b.first_row, out);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < b.rows; ++r) {
    read(index, b.first_row + r, row);
    std::copy_n(row.begin() + b.first_column, b.columns, out.begin() + r * b.columns);
  }
}

}  // namespace rl
