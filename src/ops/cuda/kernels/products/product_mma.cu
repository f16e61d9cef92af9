// A block computes kRows x 64 elements of y with four warps, out of tiles of 64 columns of x and W
// that cp.async fills two steps ahead.
#include "core/dtype.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/products/product_mma.h"
#include "ops/cuda/kernels/products/product_tiles.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 128, kColumns = 64, kDepth = 64, kStages = 3;
constexpr int kChunks = kDepth / kChunkElements<bf16>;
constexpr int kRowBytes = kTileRowBytes<kChunks>;

// How the four warps share a block's tile.
template <int kRows>
struct WarpTile {
  static constexpr int kAcross = kRows == 16 ? 4 : 2;  // warps side by side
  static constexpr int kRowTiles = kRows / (4 / kAcross) / 16;
  static constexpr int kColumnTiles = kColumns / kAcross / 8;
  static constexpr int kStageBytes = (kRows + kColumns) * kRowBytes;
  int row0 = warp_index() / kAcross * kRowTiles * 16;
  int column0 = warp_index() % kAcross * kColumnTiles * 8;
};

template <int kRows, bool kWhole>
RL_DEVICE void fill_stage(const ProductParams& p, int64_t step) {
  using Warp = WarpTile<kRows>;
  std::byte* stage = shared_at<std::byte>(static_cast<size_t>(step % kStages * Warp::kStageBytes));
  const Operand<bf16> x{reinterpret_cast<const bf16*>(p.x), p.rows, p.k, p.k};
  const Operand<bf16> w{reinterpret_cast<const bf16*>(p.w), p.n, p.k, p.k};
  fill_tile<bf16, kChunks, kWhole>(stage, kRows, x, block_x() * kRows, step * kDepth);
  fill_tile<bf16, kChunks, kWhole>(stage + kRows * kRowBytes, kColumns, w, block_y() * kColumns,
                                   step * kDepth);
}

// One step of 16 along K: element `depth` of the tiles on.
template <int kRows>
RL_DEVICE void multiply_step(
    const std::byte* stage, int depth,
    float (&sums)[WarpTile<kRows>::kRowTiles][WarpTile<kRows>::kColumnTiles][4]) {
  using Warp = WarpTile<kRows>;
  const Warp warp;
  const int lane = lane_index();
  const std::byte* x = stage + depth * 2;
  const std::byte* w = x + kRows * kRowBytes;
  uint32_t a[Warp::kRowTiles][4];
  for (int i = 0; i < Warp::kRowTiles; ++i)
    load_tiles(a[i], x + (warp.row0 + i * 16 + lane % 16) * kRowBytes + lane / 16 * 16);
  for (int j = 0; j < Warp::kColumnTiles; j += 2) {
    uint32_t b[4];
    const int column = warp.column0 + j * 8 + lane % 8 + lane / 16 * 8;
    load_tiles(b, w + column * kRowBytes + lane / 8 % 2 * 16);
    const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
    for (int i = 0; i < Warp::kRowTiles; ++i) {
      mma_bf16_16x8x16(sums[i][j], a[i], first);
      mma_bf16_16x8x16(sums[i][j + 1], a[i], second);
    }
  }
}

template <int kRows>
RL_DEVICE void store_sums(
    const ProductParams& p,
    const float (&sums)[WarpTile<kRows>::kRowTiles][WarpTile<kRows>::kColumnTiles][4]) {
  using Warp = WarpTile<kRows>;
  const Warp warp;
  const int64_t row0 = block_x() * kRows + warp.row0 + lane_index() / 4;
  const int64_t column0 = block_y() * kColumns + warp.column0 + lane_index() % 4 * 2;
  for (int i = 0; i < Warp::kRowTiles; ++i) {
    for (int j = 0; j < Warp::kColumnTiles; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int64_t row = row0 + i * 16 + e / 2 * 8, column = column0 + j * 8 + e % 2;
        if (row < p.rows && column < p.n) p.y[row * p.n + column] = sums[i][j][e];
      }
    }
  }
}

template <int kRows, bool kWhole>
RL_KERNEL void RL_BOUNDS(kThreads, 1) product_mma_kernel(ProductParams p) {
  using Warp = WarpTile<kRows>;
  float sums[Warp::kRowTiles][Warp::kColumnTiles][4] = {};
  const int64_t steps = (p.k + kDepth - 1) / kDepth;
  for (int64_t step = 0; step < kStages - 1; ++step) {
    if (step < steps) fill_stage<kRows, kWhole>(p, step);
    commit_copies();
  }
  for (int64_t step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    // Besides showing the tiles of this step, it ends the reads of the tiles that are filled next.
    sync_block();
    if (step + kStages - 1 < steps) fill_stage<kRows, kWhole>(p, step + kStages - 1);
    commit_copies();
    const std::byte* stage =
        shared_at<std::byte>(static_cast<size_t>(step % kStages * Warp::kStageBytes));
    for (int depth = 0; depth < kDepth && step * kDepth + depth < p.k; depth += 16)
      multiply_step<kRows>(stage, depth, sums);
  }
  store_sums<kRows>(p, sums);
}

template <int kRows>
void launch_rows(cudaStream_t stream, const ProductParams& p) {
  const bool whole = has_whole_chunks(p.x, p.k, p.k, sizeof(bf16)) &&
                     has_whole_chunks(p.w, p.k, p.k, sizeof(bf16));
  launch("product_mma", whole ? product_mma_kernel<kRows, true> : product_mma_kernel<kRows, false>,
         {.grid_x = (p.rows + kRows - 1) / kRows,
          .threads = kThreads,
          .shared_bytes = uint64_t{kStages} * WarpTile<kRows>::kStageBytes,
          .grid_y = (p.n + kColumns - 1) / kColumns},
         stream, p);
}

}  // namespace

void product_mma(cudaStream_t stream, const ProductParams& p) {
  constexpr int64_t kFewRows = 32;
  p.rows <= kFewRows ? launch_rows<16>(stream, p) : launch_rows<64>(stream, p);
}

}  // namespace rl::cuda
