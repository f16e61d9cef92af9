// Launchers of the forward of attention. Either kind of kernel computes whole tiles: products of
// bf16 by mma (attention_forward_mma.cu), or any types by fp32 chains (attention_forward_fma.cu).
// Tiles with a split leave partial results, which attend_merged() merges.
//
// Rounding: scores and sums in fp32. In bf16 scores are scaled after the product, and weights are
// rounded to bf16 for the sum of values but not for the sum of weights; else queries are scaled
// first. The output is rounded once.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda/kernels/attention/attention_params.h"

namespace rl::cuda {

struct AttendParams {
  AttentionSizes sizes;
  const AttentionRun* runs;
  const int32_t* blocks;  // the tables of the runs
  const AttentionTile* tiles = nullptr;
  int64_t num_tiles = 0;
  int32_t tile_pairs = 0;  // most pairs of a tile
  const void* q;           // (N, H, W)
  const std::byte* pool;
  void* out;                        // (N, H, D)
  float* lse;                       // (N, H) or null
  float* partial_values = nullptr;  // (partial pairs, KH, W)
  float* partial_states = nullptr;  // (partial pairs, KH, 2): maximum and sum
  // (N, H, D), in place of out, of rows that attend their keys in several calls, without splits.
  float* calls = nullptr;
  bool merges = false;  // there were calls before
};

// Most pairs of a tile.
int attend_mma_pairs(int width);
inline constexpr int kAttendFmaPairs = 16;
void attend_mma(cudaStream_t stream, const AttendParams& params);
void attend_fma(cudaStream_t stream, const AttendParams& params);

// Merges the partial results of pairs whose splits were computed alone: `splits` of them, each of
// end_pair - first_pair pairs, from `partial` on.
struct MergedTile {
  int32_t run;
  int32_t first_pair, end_pair;
  int32_t splits, partial;
};
struct AttendMergedParams {
  AttentionSizes sizes;
  const AttentionRun* runs;
  const MergedTile* tiles;
  int64_t num_tiles;
  const float* partial_values;
  const float* partial_states;
  void* out;
  float* lse;
};
void attend_merged(cudaStream_t stream, const AttendMergedParams& params);

}  // namespace rl::cuda
