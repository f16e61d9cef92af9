// Rows of logits: temperature, statistics of tiles and rows, and log-probs. The formulas and their
// rounding points are those of ops/logprob.h; sampling and training both use these kernels.
//
// Order of the sums of a tile: lane l of a warp adds elements l, l + 32, ... ascending (the
// weighted sum by fma(exp(z - m), z - m, sum)), then lanes are added by exchanges at distances 16,
// 8, 4, 2 and 1. Tiles are added in order, in double.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/logprob.h"

namespace rl::cuda {

// Scales logits in place and measures every tile of every row.
struct MeasureTilesParams {
  float* z;                      // (rows, V)
  const float* inv_temperature;  // (rows)
  TileStats* tiles;              // (rows, tiles)
  int64_t rows, vocab, width;    // width of a tile
};
void measure_tiles(cudaStream_t stream, const MeasureTilesParams& params);

struct CombineTilesParams {
  const TileStats* tiles;  // (rows, count)
  RowStats* stats;         // (rows)
  int64_t rows, count;
};
void combine_tiles(cudaStream_t stream, const CombineTilesParams& params);

// The log-prob of one id of each row, and the row's entropy.
struct RowLogprobsParams {
  const float* z;         // (rows, V)
  const RowStats* stats;  // (rows)
  const int32_t* ids;     // (rows)
  float* logprobs;        // (rows)
  float* entropies;       // (rows), or null
  int64_t rows, vocab;
};
void row_logprobs(cudaStream_t stream, const RowLogprobsParams& params);

}  // namespace rl::cuda
