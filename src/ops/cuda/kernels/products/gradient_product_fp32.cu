// A block computes 64 x 64 elements of grad with 256 threads: thread (i, j) of 16 x 16 has rows
// i, i + 16, ... and columns j, j + 16, ... of the tile.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/products/gradient_product.h"
#include "ops/cuda/kernels/products/product_tiles.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 256, kSide = 64, kGrid = 16, kEach = kSide / kGrid;
constexpr int kDepth = 16, kStages = 2;
constexpr int kChunks = kSide / kChunkElements<float>;
constexpr int kRowBytes = kTileRowBytes<kChunks>;
constexpr int kRowFloats = kRowBytes / static_cast<int>(sizeof(float));
constexpr int kStageBytes = 2 * kDepth * kRowBytes;
static_assert(kGradientSumRows % kDepth == 0);

using Sums = float[kEach][kEach];

template <bool kWhole>
RL_DEVICE void fill_stage(const GradientProductParams& p, int64_t step) {
  std::byte* stage = shared_at<std::byte>(static_cast<size_t>(step % kStages * kStageBytes));
  const Operand<float> dy{reinterpret_cast<const float*>(p.dy), p.rows, p.n, p.dy_stride};
  const Operand<float> x{reinterpret_cast<const float*>(p.x), p.rows, p.k, p.k};
  fill_tile<float, kChunks, kWhole>(stage, kDepth, dy, step * kDepth, block_y() * kSide);
  fill_tile<float, kChunks, kWhole>(stage + kDepth * kRowBytes, kDepth, x, step * kDepth,
                                    block_x() * kSide);
}

RL_DEVICE void multiply_row(const float* stage, int row, Sums& sums) {
  const float* dy = stage + row * kRowFloats + thread_index() / kGrid;
  const float* x = stage + (kDepth + row) * kRowFloats + thread_index() % kGrid;
  float of_x[kEach];
  for (int j = 0; j < kEach; ++j) of_x[j] = x[j * kGrid];
  for (int i = 0; i < kEach; ++i) {
    const float of_dy = dy[i * kGrid];
    for (int j = 0; j < kEach; ++j) sums[i][j] = fma_rn(of_dy, of_x[j], sums[i][j]);
  }
}

// Adds the sums of a chunk to the totals.
RL_DEVICE void close_chunk(Sums& sums, Sums& totals) {
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      totals[i][j] += sums[i][j];
      sums[i][j] = 0;
    }
  }
}

RL_DEVICE void add_to_gradient(const GradientProductParams& p, const Sums& totals) {
  for (int i = 0; i < kEach; ++i) {
    const int64_t row = block_y() * kSide + thread_index() / kGrid + i * kGrid;
    for (int j = 0; j < kEach; ++j) {
      const int64_t column = block_x() * kSide + thread_index() % kGrid + j * kGrid;
      if (row < p.n && column < p.k) p.grad[row * p.k + column] += totals[i][j];
    }
  }
}

template <bool kWhole>
RL_KERNEL void RL_BOUNDS(kThreads, 1) gradient_product_fp32_kernel(GradientProductParams p) {
  Sums sums = {}, totals = {};
  const int64_t steps = (p.rows + kDepth - 1) / kDepth;
  if (steps > 0) fill_stage<kWhole>(p, 0);
  commit_copies();
  for (int64_t step = 0; step < steps; ++step) {
    wait_copies<0>();
    // Besides showing the tiles of this step, it ends the reads of the tiles that are filled next.
    sync_block();
    if (step + 1 < steps) fill_stage<kWhole>(p, step + 1);
    commit_copies();
    const float* stage = shared_at<float>(static_cast<size_t>(step % kStages * kStageBytes));
    for (int row = 0; row < kDepth && step * kDepth + row < p.rows; ++row)
      multiply_row(stage, row, sums);
    if ((step + 1) * kDepth % kGradientSumRows == 0 || step + 1 == steps) close_chunk(sums, totals);
  }
  add_to_gradient(p, totals);
}

}  // namespace

void gradient_product_fp32(cudaStream_t stream, const GradientProductParams& p) {
  const bool whole = has_whole_chunks(p.dy, p.n, p.dy_stride, sizeof(float)) &&
                     has_whole_chunks(p.x, p.k, p.k, sizeof(float));
  launch("gradient_product_fp32",
         whole ? gradient_product_fp32_kernel<true> : gradient_product_fp32_kernel<false>,
         {.grid_x = (p.k + kSide - 1) / kSide,
          .threads = kThreads,
          .shared_bytes = uint64_t{kStages} * kStageBytes,
          .grid_y = (p.n + kSide - 1) / kSide},
         stream, p);
}

}  // namespace rl::cuda
