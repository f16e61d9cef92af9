// What both kernels of gradient_product.h have in common: a block computes kGradientSide x
// kGradientSide elements of grad, and reads tiles of dy and x, some rows of the batch at a time.
#pragma once
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/products/product_params.h"
#include "ops/cuda/kernels/products/product_tiles.h"

namespace rl::cuda {

inline constexpr int kGradientSide = 64;
template <typename T>
inline constexpr int kGradientChunks = kGradientSide / kChunkElements<T>;

// `depth` rows of dy from row `row0` on, and behind them those of x.
template <typename T, bool kWhole>
RL_DEVICE void fill_gradient_tiles(const GradientProductParams& p, std::byte* tiles, int depth,
                                   int64_t row0) {
  constexpr int kChunks = kGradientChunks<T>;
  const Operand<T> dy{reinterpret_cast<const T*>(p.dy), p.rows, p.n, p.dy_stride};
  const Operand<T> x{reinterpret_cast<const T*>(p.x), p.rows, p.k, p.k};
  fill_tile<T, kChunks, kWhole>(tiles, depth, dy, row0, block_y() * kGradientSide);
  fill_tile<T, kChunks, kWhole>(tiles + depth * kTileRowBytes<kChunks>, depth, x, row0,
                                block_x() * kGradientSide);
}

// A kernel for operands of whole chunks, and the one for all others.
struct GradientKernels {
  const char* name;
  void (*whole)(GradientProductParams);
  void (*any)(GradientProductParams);
  int threads;
  uint64_t shared_bytes;
  size_t item;  // bytes of an element
};
inline void launch_gradient(cudaStream_t stream, const GradientKernels& kernels,
                            const GradientProductParams& p) {
  const bool whole = has_whole_chunks(p.dy, p.n, p.dy_stride, kernels.item) &&
                     has_whole_chunks(p.x, p.k, p.k, kernels.item);
  launch(kernels.name, whole ? kernels.whole : kernels.any,
         {.grid_x = (p.k + kGradientSide - 1) / kGradientSide,
          .threads = kernels.threads,
          .shared_bytes = kernels.shared_bytes,
          .grid_y = (p.n + kGradientSide - 1) / kGradientSide},
         stream, p);
}

}  // namespace rl::cuda
