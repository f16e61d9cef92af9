// A block computes 64 x 64 elements of grad with 256 threads: thread (i, j) of 16 x 16 has rows
// i, i + 16, ... and columns j, j + 16, ... of the tile.
#include "device/cuda/lang/arithmetic.h"
#include "ops/cuda/kernels/products/gradient_product.h"
#include "ops/cuda/kernels/products/gradient_tiles.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 256, kGrid = 16, kEach = kGradientSide / kGrid;
constexpr int kDepth = 16, kStages = 2;
constexpr int kRowBytes = kTileRowBytes<kGradientChunks<float>>;
constexpr int kRowFloats = kRowBytes / static_cast<int>(sizeof(float));
constexpr int kStageBytes = 2 * kDepth * kRowBytes;
static_assert(kGradientSumRows % kDepth == 0);

using Sums = float[kEach][kEach];

template <bool kWhole>
RL_DEVICE void fill_stage(const GradientProductParams& p, int64_t step) {
  std::byte* stage = shared_at<std::byte>(static_cast<size_t>(step % kStages * kStageBytes));
  fill_gradient_tiles<float, kWhole>(p, stage, kDepth, step * kDepth);
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
    const int64_t row = block_y() * kGradientSide + thread_index() / kGrid + i * kGrid;
    for (int j = 0; j < kEach; ++j) {
      const int64_t column = block_x() * kGradientSide + thread_index() % kGrid + j * kGrid;
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

void gradient_product_fp32(cudaStream_t stream, const GradientProductParams& params) {
  launch_gradient(stream,
                  {.name = "gradient_product_fp32",
                   .whole = gradient_product_fp32_kernel<true>,
                   .any = gradient_product_fp32_kernel<false>,
                   .threads = kThreads,
                   .shared_bytes = uint64_t{kStages} * kStageBytes,
                   .item = sizeof(float)},
                  params);
}

}  // namespace rl::cuda
