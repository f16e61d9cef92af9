// Samples from rows that nothing but the temperature shapes: by inverse CDF in id order, or the
// lowest id with the largest logit. Masses are in units (sampling_params.h).
//
// A tile of the vocabulary has the mass exp(m_i - M) s_i of its statistics. The target picks a tile
// as it would an id. What is left of it, as a fraction of the tile's mass, is the u with which an
// id of the tile is drawn by the masses exp(z - m_i).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/kernels/head/sampling_params.h"
#include "ops/logprob.h"

namespace rl::cuda {

struct PlainRequest {
  int64_t row;  // of the head
  double u;
  int32_t token;   // where the result goes
  int32_t greedy;  // u is not used
};
struct SamplePlainParams {
  const PlainRequest* requests;  // (count)
  const float* z;                // (head rows, V)
  const TileStats* tiles;        // (head rows, tiles)
  const RowStats* stats;         // (head rows)
  SampledToken* tokens;
  int64_t count, vocab, width;
  double units;  // of a mass of 1
};
void sample_plain(cudaStream_t stream, const SamplePlainParams& params);

// The ids of the largest logits of rows, largest first, ties by lower id, and their log-probs.
struct TopRequest {
  int64_t row;           // of the head
  int32_t first, count;  // where they go; count is at most V
};
struct TopIdsParams {
  const TopRequest* requests;  // (requests)
  const float* z;              // (head rows, V)
  const TileStats* tiles;      // (head rows, tiles)
  const RowStats* stats;       // (head rows)
  int32_t* ids;                // -1 in a row that is not finite
  float* logprobs;
  int64_t count, vocab, width;
};
void top_ids(cudaStream_t stream, const TopIdsParams& params);

}  // namespace rl::cuda
