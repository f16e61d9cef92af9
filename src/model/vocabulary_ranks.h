// What ranks that divide a vocabulary tell each other of the rows of a head, so that each has the
// bits of one rank with the same tiles. Tile statistics are combined in the order of all tiles. A
// log-prob comes from the rank that has the token. The rows that tokens are sampled from are
// divided: a rank has all logits of its rows, samples from them as one rank does, and tells the
// others what came out.
//
// All ranks make the same calls.
#pragma once
#include <cstdint>
#include <span>

#include "model/head.h"
#include "model/ranks/tensor_ranks.h"
#include "ops/sample_ops.h"

namespace rl {

// The most of `rows` rows that a rank samples from.
inline int64_t most_sampled_rows(int64_t rows, const VocabularyCut& cut) {
  return (rows + cut.ranks() - 1) / cut.ranks();
}
// Where head_logits() leaves the statistics of this rank's tiles.
TileStats* own_tiles(const HeadBuffers& buffers);

// After head_logits() of buffers.rows rows: fills tiles and stats.
void combine_tiles_of_ranks(Compute& compute, const TensorRanks& ranks, HeadBuffers& buffers);
// As head_scores().
void score_over_ranks(const Model& model, const HeadBuffers& buffers, std::span<const int32_t> ids,
                      const HeadScores& out);
// Copies all logits of buffers.rows rows, (rows, tokens of all), to each rank.
void gather_logits(Compute& compute, const TensorRanks& ranks, const HeadBuffers& buffers,
                   float* to);
// Copies this rank's columns of such rows, (rows, its tokens), to another array.
void copy_own_columns(Compute& compute, const HeadBuffers& buffers, const float* rows, float* to);
// As sample_rows(), of args that name the buffers.
void sample_over_ranks(const Model& model, const HeadBuffers& buffers, const SampleRowsArgs& args);

}  // namespace rl
