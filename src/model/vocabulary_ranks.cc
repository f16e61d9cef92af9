#include "model/vocabulary_ranks.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "ops/compute.h"
#include "ops/logprob.h"

namespace rl {

TileStats* own_tiles(const HeadBuffers& b) {
  if (b.cut.ranks() == 1) return b.tiles;
  return b.tiles_by_rank + b.rows * b.cut.first_tile(b.cut.rank());
}

namespace {

// Columns of each rank, (rows, its columns), one rank behind the other.
struct ColumnsByRank {
  const std::byte* data;
  const Pieces& pieces;  // elements of each rank
  uint64_t element;      // bytes
  int64_t rows;
};

// Writes (rows, columns of all).
void join_columns(Compute& compute, const ColumnsByRank& of, std::byte* to) {
  if (of.rows == 0) return;
  const auto rows = static_cast<uint64_t>(of.rows);
  const uint64_t row_bytes = of.pieces.count() / rows * of.element;
  for (int r = 0; r < of.pieces.parts(); ++r) {
    const Piece piece = of.pieces[r];
    const uint64_t bytes = piece.count() / rows * of.element;
    copy_columns(compute, {of.data + piece.begin * of.element, bytes,
                           to + piece.begin / rows * of.element, row_bytes, of.rows, bytes});
  }
}

}  // namespace

void combine_tiles_of_ranks(Compute& compute, const TensorRanks& ranks, HeadBuffers& b) {
  const VocabularyCut& cut = b.cut;
  Pieces bytes{{0}};
  for (int r = 0; r < ranks.size(); ++r)
    bytes.bounds.push_back(static_cast<uint64_t>(b.rows * cut.first_tile(r + 1)) *
                           sizeof(TileStats));
  auto* const by_rank = reinterpret_cast<std::byte*>(b.tiles_by_rank);
  ranks.gather_bytes({by_rank, bytes.count()}, bytes, compute.space());
  join_columns(compute, {by_rank, bytes, 1, b.rows}, reinterpret_cast<std::byte*>(b.tiles));
  combine_tiles(compute, {b.tiles, b.stats, b.rows, cut.tiles().count()});
}

void score_over_ranks(const Model& model, const HeadBuffers& b, std::span<const int32_t> ids,
                      const HeadScores& out) {
  const TokenRange own = b.cut.own();
  std::vector<int32_t> own_ids(ids.size(), 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (own.has(ids[i])) own_ids[i] = ids[i] - static_cast<int32_t>(own.first);
  }
  head_logprobs(model.compute(), {b.z, b.stats, b.vocab, own_ids, out.logprobs, out.entropies});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!own.has(ids[i])) out.logprobs[i] = 0;
  }
  model.tensor_ranks().merge(out.logprobs);
}

void gather_logits(Compute& compute, const TensorRanks& ranks, const HeadBuffers& b, float* to) {
  const int64_t all = b.cut.tiles().n;
  const auto own_bytes = static_cast<uint64_t>(b.vocab) * sizeof(float);
  zero_floats(compute, {to, b.rows * all});
  copy_columns(compute, {reinterpret_cast<const std::byte*>(b.z), own_bytes,
                         reinterpret_cast<std::byte*>(to + b.cut.own().first),
                         static_cast<uint64_t>(all) * sizeof(float), b.rows, own_bytes});
  ranks.merge(std::span(to, static_cast<size_t>(b.rows * all)), compute.space());
}

void copy_own_columns(Compute& compute, const HeadBuffers& b, const float* rows, float* to) {
  const auto own_bytes = static_cast<uint64_t>(b.vocab) * sizeof(float);
  copy_columns(compute, {reinterpret_cast<const std::byte*>(rows + b.cut.own().first),
                         static_cast<uint64_t>(b.cut.tiles().n) * sizeof(float),
                         reinterpret_cast<std::byte*>(to), own_bytes, b.rows, own_bytes});
}

namespace {

// Fills z with all logits of the rows that this rank has of `rows`.
void bring_logits(const Model& model, const HeadBuffers& b, const Pieces& rows) {
  RL_CHECK(b.logits_by_rank != nullptr);
  Compute& compute = model.compute();
  const TensorRanks& ranks = model.tensor_ranks();
  const uint64_t count = rows[ranks.rank()].count();
  Pieces out{{0}}, in{{0}};
  for (int r = 0; r < ranks.size(); ++r) {
    const auto end = static_cast<uint64_t>(b.cut.tokens_of_rank(r).end());
    out.bounds.push_back(rows[r].end * static_cast<uint64_t>(b.vocab));
    in.bounds.push_back(count * end);
  }
  const MemorySpace space = compute.space();
  ranks.exchange({const_values_of(std::span<const float>(b.z, out.count()), space), out},
                 {values_of(std::span(b.logits_by_rank, in.count()), space), in});
  join_columns(compute,
               {reinterpret_cast<const std::byte*>(b.logits_by_rank), in, sizeof(float),
                static_cast<int64_t>(count)},
               reinterpret_cast<std::byte*>(b.z));
}

}  // namespace

void sample_over_ranks(const Model& model, const HeadBuffers& b, const SampleRowsArgs& a) {
  const TensorRanks& ranks = model.tensor_ranks();
  const Pieces rows = even_pieces(static_cast<uint64_t>(b.rows), ranks.size());
  bring_logits(model, b, rows);
  const auto first = static_cast<int64_t>(rows[ranks.rank()].begin);
  const auto end = static_cast<int64_t>(rows[ranks.rank()].end);
  std::vector<SampleRow> own;
  std::vector<size_t> places;
  for (size_t i = 0; i < a.rows.size(); ++i) {
    if (a.rows[i].row < first || a.rows[i].row >= end) continue;
    own.push_back(a.rows[i]);
    own.back().row -= first;
    places.push_back(i);
  }
  std::vector<TokenChoice> chosen(own.size());
  const TileStats* const tiles = a.tiles + first * b.cut.tiles().count();
  if (!own.empty()) {
    sample_rows(model.compute(),
                {own, a.z, tiles, a.stats + first, a.vocab, a.tile_width, a.scratch, chosen});
  }
  std::ranges::fill(std::as_writable_bytes(a.choices), std::byte{0});
  for (size_t i = 0; i < places.size(); ++i) a.choices[places[i]] = chosen[i];
  ranks.merge(a.choices);
}

}  // namespace rl
