// Transposition goes through a square tile in shared memory, so that both sides are read and
// written along rows. A tile's rows are one element longer, so that its columns lie in different
// banks.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/packing_kernels.h"

namespace rl::cuda {
namespace {

constexpr int64_t kTile = 32, kTileStride = kTile + 1;
constexpr int kTileThreads = 256;

constexpr int64_t num_tiles(int64_t n) { return (n + kTile - 1) / kTile; }

RL_KERNEL void round_floats_kernel(RoundFloatsParams p) {
  for_each_element(p.count, [&](int64_t i) { store_element(p.dtype, p.to, i, p.from[i]); });
}

RL_KERNEL void round_transposed_kernel(RoundTransposedParams p) {
  const int64_t tiles = num_tiles(p.columns);
  const int64_t row0 = block_x() / tiles * kTile, column0 = block_x() % tiles * kTile;
  const int64_t lane = lane_index();
  float* tile = shared_at<float>(0);
  for (int64_t i = warp_index(); i < kTile; i += block_warps()) {
    if (row0 + i < p.rows && column0 + lane < p.columns)
      tile[i * kTileStride + lane] = p.from[(row0 + i) * p.columns + column0 + lane];
  }
  sync_block();
  for (int64_t i = warp_index(); i < kTile; i += block_warps()) {
    if (column0 + i < p.columns && row0 + lane < p.rows)
      store_element(p.dtype, p.to, (column0 + i) * p.rows + row0 + lane,
                    tile[lane * kTileStride + i]);
  }
}

}  // namespace

void round_floats(cudaStream_t stream, const RoundFloatsParams& params) {
  launch("round_floats", round_floats_kernel, element_blocks(params.count), stream, params);
}
void round_transposed(cudaStream_t stream, const RoundTransposedParams& params) {
  launch("round_transposed", round_transposed_kernel,
         LaunchShape{num_tiles(params.rows) * num_tiles(params.columns), kTileThreads,
                     kTile * kTileStride * sizeof(float)},
         stream, params);
}

}  // namespace rl::cuda
