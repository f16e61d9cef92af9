// A block computes 64 x 64 elements of grad with four warps of 32 x 32. Both operands lie along the
// wrong dimension for mma: ldmatrix transposes them.
#include "core/dtype.h"
#include "ops/cuda/kernels/products/gradient_product.h"
#include "ops/cuda/kernels/products/gradient_tiles.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 128, kDepth = 32, kStages = 3;
constexpr int kRowBytes = kTileRowBytes<kGradientChunks<bf16>>;
constexpr int kStageBytes = 2 * kDepth * kRowBytes;
constexpr int kRowTiles = 2, kColumnTiles = 4;  // of a warp, of 16 rows and of 8 columns
static_assert(kGradientSumRows % kDepth == 0);

using Sums = float[kRowTiles][kColumnTiles][4];

template <bool kWhole>
RL_DEVICE void fill_stage(const GradientProductParams& p, int64_t step) {
  std::byte* stage = shared_at<std::byte>(static_cast<size_t>(step % kStages * kStageBytes));
  fill_gradient_tiles<bf16, kWhole>(p, stage, kDepth, step * kDepth);
}

// 16 rows of the batch, from row `depth` of the tiles on.
RL_DEVICE void multiply_step(const std::byte* stage, int depth, Sums& sums) {
  const int lane = lane_index();
  const std::byte* dy = stage + depth * kRowBytes + warp_index() / 2 * 32 * 2;
  const std::byte* x = stage + (kDepth + depth) * kRowBytes + warp_index() % 2 * 32 * 2;
  uint32_t a[kRowTiles][4];
  for (int i = 0; i < kRowTiles; ++i) {
    const int row = lane % 8 + lane / 16 * 8, column = i * 16 + lane / 8 % 2 * 8;
    load_tiles_transposed(a[i], dy + row * kRowBytes + column * 2);
  }
  for (int j = 0; j < kColumnTiles; j += 2) {
    uint32_t b[4];
    load_tiles_transposed(b, x + lane % 16 * kRowBytes + (j * 8 + lane / 16 * 8) * 2);
    const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
    for (int i = 0; i < kRowTiles; ++i) {
      mma_bf16_16x8x16(sums[i][j], a[i], first);
      mma_bf16_16x8x16(sums[i][j + 1], a[i], second);
    }
  }
}

// Adds the sums of a chunk to the totals.
RL_DEVICE void close_chunk(Sums& sums, Sums& totals) {
  for (int i = 0; i < kRowTiles; ++i) {
    for (int j = 0; j < kColumnTiles; ++j) {
      for (int e = 0; e < 4; ++e) {
        totals[i][j][e] += sums[i][j][e];
        sums[i][j][e] = 0;
      }
    }
  }
}

RL_DEVICE void add_to_gradient(const GradientProductParams& p, const Sums& totals) {
  const int64_t row0 = block_y() * kGradientSide + warp_index() / 2 * 32 + lane_index() / 4;
  const int64_t column0 = block_x() * kGradientSide + warp_index() % 2 * 32 + lane_index() % 4 * 2;
  for (int i = 0; i < kRowTiles; ++i) {
    for (int j = 0; j < kColumnTiles; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int64_t row = row0 + i * 16 + e / 2 * 8, column = column0 + j * 8 + e % 2;
        if (row < p.n && column < p.k) p.grad[row * p.k + column] += totals[i][j][e];
      }
    }
  }
}

template <bool kWhole>
RL_KERNEL void RL_BOUNDS(kThreads, 1) gradient_product_mma_kernel(GradientProductParams p) {
  Sums sums = {}, totals = {};
  const int64_t steps = (p.rows + kDepth - 1) / kDepth;
  for (int64_t step = 0; step < kStages - 1; ++step) {
    if (step < steps) fill_stage<kWhole>(p, step);
    commit_copies();
  }
  for (int64_t step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    // Besides showing the tiles of this step, it ends the reads of the tiles that are filled next.
    sync_block();
    if (step + kStages - 1 < steps) fill_stage<kWhole>(p, step + kStages - 1);
    commit_copies();
    const std::byte* stage =
        shared_at<std::byte>(static_cast<size_t>(step % kStages * kStageBytes));
    for (int depth = 0; depth < kDepth && step * kDepth + depth < p.rows; depth += 16)
      multiply_step(stage, depth, sums);
    if ((step + 1) * kDepth % kGradientSumRows == 0 || step + 1 == steps) close_chunk(sums, totals);
  }
  add_to_gradient(p, totals);
}

}  // namespace

void gradient_product_mma(cudaStream_t stream, const GradientProductParams& params) {
  launch_gradient(stream,
                  {.name = "gradient_product_mma",
                   .whole = gradient_product_mma_kernel<true>,
                   .any = gradient_product_mma_kernel<false>,
                   .threads = kThreads,
                   .shared_bytes = uint64_t{kStages} * kStageBytes,
                   .item = sizeof(bf16)},
                  params);
}

}  // namespace rl::cuda
