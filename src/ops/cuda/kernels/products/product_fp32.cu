// A block computes kRows x 64 elements of y with 256 threads: thread (i, j) of 16 x 16 has rows
// i, i + 16, ... and columns j, j + 16, ... of the tile.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/products/product_fp32.h"
#include "ops/cuda/kernels/products/product_tiles.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 256, kSide = 16, kColumns = 64, kDepth = 32, kStages = 2;
constexpr int kChunks = kDepth / kChunkElements<float>;
constexpr int kRowBytes = kTileRowBytes<kChunks>;
constexpr int kRowFloats = kRowBytes / static_cast<int>(sizeof(float));

template <int kRows>
inline constexpr int kStageBytes = (kRows + kColumns) * kRowBytes;

template <int kRows, bool kWhole>
RL_DEVICE void fill_stage(const ProductParams& p, int64_t step) {
  std::byte* stage = shared_at<std::byte>(static_cast<size_t>(step % kStages * kStageBytes<kRows>));
  const Operand<float> x{reinterpret_cast<const float*>(p.x), p.rows, p.k, p.k};
  const Operand<float> w{reinterpret_cast<const float*>(p.w), p.n, p.k, p.k};
  fill_tile<float, kChunks, kWhole>(stage, kRows, x, block_x() * kRows, step * kDepth);
  fill_tile<float, kChunks, kWhole>(stage + kRows * kRowBytes, kColumns, w, block_y() * kColumns,
                                    step * kDepth);
}

template <int kRows>
RL_DEVICE void multiply_column(const float* stage, int column,
                               float (&sums)[kRows / kSide][kColumns / kSide]) {
  const float* x = stage + column + thread_index() / kSide * kRowFloats;
  const float* w = stage + column + (kRows + thread_index() % kSide) * kRowFloats;
  float of_w[kColumns / kSide];
  for (int j = 0; j < kColumns / kSide; ++j) of_w[j] = w[j * kSide * kRowFloats];
  for (int i = 0; i < kRows / kSide; ++i) {
    const float of_x = x[i * kSide * kRowFloats];
    for (int j = 0; j < kColumns / kSide; ++j) sums[i][j] = fma_rn(of_x, of_w[j], sums[i][j]);
  }
}

template <int kRows>
RL_DEVICE void store_sums(const ProductParams& p,
                          const float (&sums)[kRows / kSide][kColumns / kSide]) {
  for (int i = 0; i < kRows / kSide; ++i) {
    const int64_t row = block_x() * kRows + thread_index() / kSide + i * kSide;
    for (int j = 0; j < kColumns / kSide; ++j) {
      const int64_t column = block_y() * kColumns + thread_index() % kSide + j * kSide;
      if (row < p.rows && column < p.n) p.y[row * p.n + column] = sums[i][j];
    }
  }
}

template <int kRows, bool kWhole>
RL_KERNEL void RL_BOUNDS(kThreads, 1) product_fp32_kernel(ProductParams p) {
  float sums[kRows / kSide][kColumns / kSide] = {};
  const int64_t steps = (p.k + kDepth - 1) / kDepth;
  fill_stage<kRows, kWhole>(p, 0);
  commit_copies();
  for (int64_t step = 0; step < steps; ++step) {
    wait_copies<0>();
    // Besides showing the tiles of this step, it ends the reads of the tiles that are filled next.
    sync_block();
    if (step + 1 < steps) fill_stage<kRows, kWhole>(p, step + 1);
    commit_copies();
    const float* stage = shared_at<float>(static_cast<size_t>(step % kStages * kStageBytes<kRows>));
    const int64_t columns = p.k - step * kDepth < kDepth ? p.k - step * kDepth : kDepth;
    for (int column = 0; column < columns; ++column) multiply_column<kRows>(stage, column, sums);
  }
  store_sums<kRows>(p, sums);
}

template <int kRows>
void launch_rows(cudaStream_t stream, const ProductParams& p) {
  const bool whole = has_whole_chunks(p.x, p.k, p.k, sizeof(float)) &&
                     has_whole_chunks(p.w, p.k, p.k, sizeof(float));
  launch("product_fp32",
         whole ? product_fp32_kernel<kRows, true> : product_fp32_kernel<kRows, false>,
         {.grid_x = (p.rows + kRows - 1) / kRows,
          .threads = kThreads,
          .shared_bytes = uint64_t{kStages} * kStageBytes<kRows>,
          .grid_y = (p.n + kColumns - 1) / kColumns},
         stream, p);
}

}  // namespace

void product_fp32(cudaStream_t stream, const ProductParams& p) {
  constexpr int64_t kFewRows = 32;
  p.rows <= kFewRows ? launch_rows<16>(stream, p) : launch_rows<64>(stream, p);
}

}  // namespace rl::cuda
