// Small kernels in the style of the library's own.
#include "cuda_host/language_kernels.h"
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "device/cuda/lang/ptx.h"

namespace rl::cuda::language {
namespace {

RL_KERNEL void scale_kernel(ScaleParams p) {
  const int64_t i = block_x() * block_threads() + thread_index();
  if (i < p.count) p.to[i] = fma_rn(p.a[i], p.factor, p.b[i]);
}

RL_KERNEL void RL_BOUNDS(256, 1) sum_kernel(SumParams p) {
  float value = p.from[block_x() * block_threads() + thread_index()];
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value += shuffle_xor(value, distance);
  float* const sums = shared_at<float>(0);
  if (lane_index() == 0) sums[warp_index()] = value;
  sync_block();
  if (thread_index() != 0) return;
  float total = 0;
  for (int warp = 0; warp < block_warps(); ++warp) total += sums[warp];
  p.to[block_x()] = total;
}

// One warp for 16 rows; a step of 16 along k has its tiles in one of two buffers.
RL_KERNEL void tile_kernel(TileParams p) {
  constexpr int kStep = 16;
  const int lane = lane_index();
  uint16_t* const tiles = shared_at<uint16_t>(0);  // (2, 24, 16): 16 rows of a, 8 of b
  const auto fetch = [&](int64_t step) {
    if (step * kStep < p.depth) {
      for (int piece = lane; piece < 48; piece += kLanes) {
        const int row = piece / 2, half = piece % 2 * 8;
        const uint16_t* const from =
            row < 16 ? p.a + (block_x() * 16 + row) * p.depth : p.b + (row - 16) * p.depth;
        copy_async_16(tiles + step % 2 * 384 + row * kStep + half, from + step * kStep + half);
      }
    }
    commit_copies();
  };
  float d[4] = {};
  fetch(0);
  for (int64_t step = 0; step * kStep < p.depth; ++step) {
    fetch(step + 1);
    wait_copies<1>();
    sync_warp();
    const uint16_t* const a = tiles + step % 2 * 384;
    uint32_t fa[4], fb[4];
    load_tiles(fa, a + (lane % 16) * kStep + lane / 16 * 8);
    load_tiles(fb, a + (16 + lane % 8) * kStep + lane / 8 % 2 * 8);
    const uint32_t b[2] = {fb[0], fb[1]};
    mma_bf16_16x8x16(d, fa, b);
    sync_warp();
  }
  wait_copies<0>();
  float* const to = p.c + (block_x() * 16 + lane / 4) * 8 + lane % 4 * 2;
  to[0] = d[0];
  to[1] = d[1];
  to[64] = d[2];
  to[65] = d[3];
}

RL_KERNEL void lanes_kernel(LaneParams p) {
  const int lane = lane_index();
  const uint32_t value = 100 + static_cast<uint32_t>(lane);
  uint16_t* const tiles = shared_at<uint16_t>(0);
  for (int i = lane; i < 256; i += kLanes) tiles[i] = static_cast<uint16_t>(i);
  sync_warp();
  uint32_t plain[4], transposed[4];
  load_tiles(plain, tiles + lane * 8);
  load_tiles_transposed(transposed, tiles + lane * 8);
  p.to[lane] = ballot(lane % 3 == 0);
  p.to[32 + lane] = shuffle(value, (lane + 5) % kLanes);
  p.to[64 + lane] = shuffle_down(value, 4);
  p.to[96 + lane] = plain[1];
  p.to[128 + lane] = transposed[2];
  p.to[160 + lane] = shared_address(tiles + lane);
  p.to[192 + lane] = static_cast<uint32_t>(lowest_bit(1u << lane));
  p.to[224 + lane] = static_cast<uint32_t>(lowest_bit(kAllLanes << lane));
  p.to[256 + lane] = static_cast<uint32_t>(lowest_bit(ballot(lane < 0)));
}

}  // namespace

void scale(cudaStream_t stream, const ScaleParams& params) {
  launch("scale", scale_kernel, {(params.count + 127) / 128, 128}, stream, params);
}
void sum_blocks(cudaStream_t stream, const SumParams& params) {
  launch("sum_blocks", sum_kernel, {params.blocks, 256, 8 * sizeof(float)}, stream, params);
}
const void* sum_kernel_address() { return reinterpret_cast<const void*>(sum_kernel); }
void multiply_tiles(cudaStream_t stream, const TileParams& params) {
  launch("multiply_tiles", tile_kernel, {params.tiles, 32, 2 * 384 * sizeof(uint16_t)}, stream,
         params);
}
void show_lanes(cudaStream_t stream, const LaneParams& params) {
  launch("show_lanes", lanes_kernel, {1, 32, 512}, stream, params);
}

}  // namespace rl::cuda::language
