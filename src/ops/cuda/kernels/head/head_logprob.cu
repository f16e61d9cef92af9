// A warp for each tile of each row, then a warp for each row.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/head/head_logprob.h"
#include "ops/cuda/kernels/head/lane_values.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kLanes;

RL_DEVICE float scale_and_max(float* z, int64_t n, float inv_temperature) {
  float max = -HUGE_VALF;
  for (int64_t i = lane_index(); i < n; i += kLanes) {
    z[i] *= inv_temperature;
    max = max_of(max, z[i]);
  }
  return max_lanes(max);
}

RL_KERNEL void RL_BOUNDS(kThreads, 1) measure_tiles_kernel(MeasureTilesParams p) {
  const int64_t count = (p.vocab + p.width - 1) / p.width;
  const int64_t index = block_x() * kWarps + warp_index();
  if (index >= p.rows * count) return;
  const int64_t row = index / count, first = index % count * p.width;
  const int64_t n = p.vocab - first < p.width ? p.vocab - first : p.width;
  float* const z = p.z + row * p.vocab + first;
  const float max = scale_and_max(z, n, p.inv_temperature[row]);
  float sum = 0, weighted = 0;
  for (int64_t i = lane_index(); i < n; i += kLanes) {
    const float below = z[i] - max, e = exp_of(below);
    sum += e;
    weighted = fma_rn(e, below, weighted);
  }
  sum = add_lanes(sum);
  weighted = add_lanes(weighted);
  if (lane_index() == 0) p.tiles[index] = {max, sum, weighted};
}

RL_DEVICE float max_of_tiles(const TileStats* tiles, int64_t count) {
  float max = -HUGE_VALF;
  for (int64_t i = lane_index(); i < count; i += kLanes) max = max_of(max, tiles[i].max);
  return max_lanes(max);
}

// What a tile adds to the sums of its row.
struct TileTerms {
  double sum, weighted;
};
RL_DEVICE TileTerms terms_of(const TileStats& tile, float max) {
  const double below = static_cast<double>(tile.max) - max, scale = exp_of(below);
  return {scale * tile.sum, scale * (tile.weighted + below * tile.sum)};
}

// Lanes compute the terms of 32 tiles at once; every lane adds all of them, in order.
RL_KERNEL void RL_BOUNDS(kThreads, 1) combine_tiles_kernel(CombineTilesParams p) {
  const int64_t row = block_x() * kWarps + warp_index();
  if (row >= p.rows) return;
  const TileStats* const tiles = p.tiles + row * p.count;
  const float max = max_of_tiles(tiles, p.count);
  double sum = 0, weighted = 0;
  for (int64_t first = 0; first < p.count; first += kLanes) {
    const int64_t i = first + lane_index();
    const TileTerms mine = i < p.count ? terms_of(tiles[i], max) : TileTerms{0, 0};
    for (int lane = 0; lane < kLanes && first + lane < p.count; ++lane) {
      sum += shuffle(mine.sum, lane);
      weighted += shuffle(mine.weighted, lane);
    }
  }
  // A NaN must not look finite.
  const double log_sum = weighted != weighted ? weighted : log_of(sum);
  if (lane_index() == 0) {
    p.stats[row] = {max, static_cast<float>(log_sum), static_cast<float>(sum),
                    static_cast<float>(log_sum - weighted / sum)};
  }
}

RL_KERNEL void RL_BOUNDS(kThreads, 1) row_logprobs_kernel(RowLogprobsParams p) {
  const int64_t row = block_x() * kThreads + thread_index();
  if (row >= p.rows) return;
  p.logprobs[row] = log_prob(p.z[row * p.vocab + p.ids[row]], p.stats[row]);
  if (p.entropies != nullptr) p.entropies[row] = p.stats[row].entropy;
}

}  // namespace

void measure_tiles(cudaStream_t stream, const MeasureTilesParams& p) {
  const int64_t warps = p.rows * ((p.vocab + p.width - 1) / p.width);
  launch("measure_tiles", measure_tiles_kernel, {(warps + kWarps - 1) / kWarps, kThreads}, stream,
         p);
}

void combine_tiles(cudaStream_t stream, const CombineTilesParams& p) {
  launch("combine_tiles", combine_tiles_kernel, {(p.rows + kWarps - 1) / kWarps, kThreads}, stream,
         p);
}

void row_logprobs(cudaStream_t stream, const RowLogprobsParams& p) {
  launch("row_logprobs", row_logprobs_kernel, {(p.rows + kThreads - 1) / kThreads, kThreads},
         stream, p);
}

}  // namespace rl::cuda
