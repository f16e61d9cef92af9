#include "model/vocabulary_ranks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "ops/compute.h"
#include "ops/logprob.h"

namespace rl {

TileStats* own_tiles(const HeadBuffers& b) {
  if (b.cut.ranks() == 1) return b.tiles;
  return b.tiles_by_rank + b.rows * b.cut.first_tile(b.cut.rank());
}

void combine_tiles_of_ranks(const TensorRanks& ranks, HeadBuffers& b) {
  const VocabularyCut& cut = b.cut;
  const int64_t all = cut.tiles().count();
  Pieces bytes{{0}};
  for (int r = 0; r < ranks.size(); ++r)
    bytes.bounds.push_back(static_cast<uint64_t>(b.rows * cut.first_tile(r + 1)) *
                           sizeof(TileStats));
  const std::span gathered(b.tiles_by_rank, static_cast<size_t>(b.rows * all));
  ranks.gather_bytes(std::as_writable_bytes(gathered), bytes);
  for (int64_t row = 0; row < b.rows; ++row) {
    TileStats* const tiles = b.tiles + row * all;
    for (int r = 0; r < ranks.size(); ++r) {
      const int64_t first = cut.first_tile(r), count = cut.first_tile(r + 1) - first;
      std::copy_n(b.tiles_by_rank + b.rows * first + row * count, count, tiles + first);
    }
    b.stats[row] = combine_tiles(tiles, all);
  }
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

void gather_logits(const TensorRanks& ranks, const HeadBuffers& b, float* to) {
  const int64_t all = b.cut.tiles().n;
  std::fill_n(to, b.rows * all, 0.0f);
  for (int64_t row = 0; row < b.rows; ++row)
    std::copy_n(b.z + row * b.vocab, b.vocab, to + row * all + b.cut.own().first);
  ranks.merge(std::span(to, static_cast<size_t>(b.rows * all)));
}

void keep_own_columns(const HeadBuffers& b, float* rows) {
  for (int64_t row = 0; row < b.rows; ++row) {
    const float* const from = rows + row * b.cut.tiles().n + b.cut.own().first;
    std::memmove(rows + row * b.vocab, from, static_cast<size_t>(b.vocab) * sizeof(float));
  }
}

namespace {

// Fills z with all logits of the rows that this rank has of `rows`.
void bring_logits(const TensorRanks& ranks, const HeadBuffers& b, const Pieces& rows) {
  RL_CHECK(b.logits_by_rank != nullptr);
  const uint64_t count = rows[ranks.rank()].count();
  Pieces out{{0}}, in{{0}};
  for (int r = 0; r < ranks.size(); ++r) {
    const auto end = static_cast<uint64_t>(b.cut.tokens_of_rank(r).end());
    out.bounds.push_back(rows[r].end * static_cast<uint64_t>(b.vocab));
    in.bounds.push_back(count * end);
  }
  ranks.exchange({const_values_of(std::span<const float>(b.z, out.count())), out},
                 {values_of(std::span(b.logits_by_rank, in.count())), in});
  const int64_t vocab = b.cut.tiles().n;
  for (uint64_t row = 0; row < count; ++row) {
    for (int r = 0; r < ranks.size(); ++r) {
      const TokenRange tokens = b.cut.tokens_of_rank(r);
      const auto from =
          static_cast<int64_t>(in[r].begin) + static_cast<int64_t>(row) * tokens.count;
      std::copy_n(b.logits_by_rank + from, tokens.count,
                  b.z + static_cast<int64_t>(row) * vocab + tokens.first);
    }
  }
}

}  // namespace

void sample_over_ranks(const Model& model, const HeadBuffers& b, const SampleRowsArgs& a) {
  const TensorRanks& ranks = model.tensor_ranks();
  const Pieces rows = even_pieces(static_cast<uint64_t>(b.rows), ranks.size());
  bring_logits(ranks, b, rows);
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
