// With a rank for each part a reduce-scatter adds in the order of parts. Otherwise a rank is sent
// the products of its rows by all parts, and adds them itself.
#include "model/ranks/residual_rows.h"

#include <algorithm>

#include "core/error.h"
#include "ops/backward_ops.h"
#include "ops/compute.h"

namespace rl {

ResidualRows::ResidualRows(const TensorRanks& ranks, int64_t rows, bool divides, MemorySpace space)
    : ranks_(ranks),
      rows_(rows),
      divides_(divides && ranks.size() > 1),
      space_(space),
      own_{0, rows} {
  if (!divides_) return;
  cut_ = even_pieces(static_cast<uint64_t>(num_gradient_chunks(rows)), ranks.size());
  for (uint64_t& bound : cut_.bounds)
    bound = std::min(bound * kGradientRows, static_cast<uint64_t>(rows));
  const Piece own = cut_[ranks.rank()];
  own_ = {static_cast<int64_t>(own.begin), static_cast<int64_t>(own.count())};
}

int64_t ResidualRows::most(int64_t rows, int64_t ranks) {
  if (ranks == 1) return rows;
  return std::min(rows, (num_gradient_chunks(rows) + ranks - 1) / ranks * kGradientRows);
}

RowRange ResidualRows::own(const RowRange& range) const {
  const int64_t first = std::max(range.first, own_.first);
  const int64_t end = std::min(range.end(), own_.end());
  return end > first ? RowRange{first, end - first} : RowRange{range.first, 0};
}

int64_t ResidualRows::place(const RowRange& range) const {
  const RowRange rows = own(range);
  return rows.count != 0 ? rows.first - own_.first : 0;
}

// Of a range's values.
Pieces ResidualRows::pieces(const RowRange& range, uint64_t of_row) const {
  Pieces out =
      cut_.within({static_cast<uint64_t>(range.first), static_cast<uint64_t>(range.end())});
  for (uint64_t& bound : out.bounds) bound *= of_row;
  return out;
}

void ResidualRows::gather(std::byte* rows, uint64_t row_bytes, const RowRange& range) const {
  if (!divides_ || range.count == 0) return;
  const auto bytes = static_cast<uint64_t>(range.count) * row_bytes;
  ranks_.gather_bytes({rows, bytes}, pieces(range, row_bytes), space_);
}

const float* ResidualRows::sum(Compute& compute, const PartSums& products, const RowRange& range,
                               float* room) const {
  if (!divides_) return ranks_.sum(compute, products);
  if (range.count == 0) return products.all();
  const TensorSplit& split = products.split();
  const auto floats = static_cast<uint64_t>(products.floats());
  const Pieces out = pieces(range, floats / static_cast<uint64_t>(range.count));
  const uint64_t own = out[ranks_.rank()].count();
  if (PartSums::slots(split) == 1) {
    ranks_.reduce_scatter(values_of(std::span(products.all(), floats), space_), out);
    return products.all() + out[ranks_.rank()].begin;
  }
  // In room: the i-th part of each rank, one rank behind the other.
  const Pieces in = even_pieces(own * static_cast<uint64_t>(ranks_.size()), ranks_.size());
  for (int64_t i = 0; i < split.count; ++i) {
    const std::span<const float> from(products.part(i), floats);
    const std::span to(room + i * static_cast<int64_t>(in.count()), in.count());
    ranks_.exchange({const_values_of(from, space_), out}, {values_of(to, space_), in});
  }
  for (int64_t p = 1; p < split.parts && own != 0; ++p) {
    const int64_t at = p % split.count * static_cast<int64_t>(in.count()) +
                       p / split.count * static_cast<int64_t>(own);
    scale_add(compute, {{1.0f, room, 1.0f, room + at}, static_cast<int64_t>(own)});
  }
  return room;
}

void ResidualRows::gather_chunks(float* chunks, int64_t width, const RowRange& range) const {
  if (!divides_ || range.count == 0) return;
  Pieces bytes = pieces(range, 1);
  for (uint64_t& bound : bytes.bounds) {
    const int64_t chunk = num_gradient_chunks(static_cast<int64_t>(bound));
    bound = static_cast<uint64_t>(chunk * width) * sizeof(float);
  }
  ranks_.gather_bytes({reinterpret_cast<std::byte*>(chunks), bytes.count()}, bytes, space_);
}

int64_t ResidualRows::first_chunk(const RowRange& range) const {
  return num_gradient_chunks(own(range).first - range.first);
}

}  // namespace rl
