// Who has which rows of the residual between products. With sequence parallelism ranks that divide
// a model divide them too (parallel.sequence_parallel): each norms its rows and keeps them for the
// backward, and before a product all rows come together. Otherwise every rank has all rows.
//
// Rows are cut where chunks of gradient sums begin (kGradientRows), so that a norm's weight has the
// same sums. Arrays of own rows begin with the rank's first row.
#pragma once
#include <cstddef>
#include <cstdint>

#include "model/ranks/tensor_ranks.h"

namespace rl {

// Some rows of a batch.
struct RowRange {
  int64_t first, count;
  int64_t end() const { return first + count; }
};

class ResidualRows {
 public:
  // divides: whether the ranks divide the rows of the batch. space: of the arrays.
  ResidualRows(const TensorRanks& ranks, int64_t rows, bool divides,
               MemorySpace space = MemorySpace::kHost);
  // The most rows that a rank has of `rows`.
  static int64_t most(int64_t rows, int64_t ranks);

  bool divides() const { return divides_; }
  RowRange all() const { return {0, rows_}; }
  RowRange own() const { return own_; }
  // Those of a range that the rank has.
  RowRange own(const RowRange& range) const;
  // Where they begin among its rows.
  int64_t place(const RowRange& range) const;

  // Each rank has its rows of a range at their places behind `rows`, the first of the range;
  // afterwards every one has all.
  void gather(std::byte* rows, uint64_t row_bytes, const RowRange& range) const;
  // Of products of the rows of a range, the sums over all parts for the rank's rows. room: for the
  // products of all parts of these rows, if a rank has several.
  const float* sum(Compute& compute, const PartSums& products, const RowRange& range,
                   float* room) const;
  // Chunks of gradient sums of a range, (chunks, width): each rank has those of its rows, from
  // first_chunk() on; afterwards every one has all.
  void gather_chunks(float* chunks, int64_t width, const RowRange& range) const;
  int64_t first_chunk(const RowRange& range) const;

 private:
  Pieces pieces(const RowRange& range, uint64_t of_row) const;

  const TensorRanks ranks_;
  const int64_t rows_;
  const bool divides_;
  const MemorySpace space_;
  Pieces cut_;  // of all rows
  RowRange own_;
};

}  // namespace rl
