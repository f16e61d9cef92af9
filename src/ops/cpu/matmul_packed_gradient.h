// Weight gradients in bf16, from operands that are packed once. Left to itself oneDNN packs both
// operands again for every tile, and for a strided destination it chooses a slower kernel.
//
// Chunks of rows are taken in panels of a few. Columns of x are packed in blocks, one of a chunk
// and a slice, which all workers read; each worker transposes the columns of dy of the tiles that
// it computes, and keeps them for the tiles beside. A tile of the gradient is copied to dense
// memory and back; between, each chunk adds its product: the bits of the kernels in place, which
// sum 512 rows as two halves of 256.
#pragma once
#include <array>
#include <vector>

#include "ops/cpu/matmul_impl.h"

namespace rl {

class Matmul::Impl::PackedGradient {
 public:
  PackedGradient(Impl& impl, const WeightGrad& args);
  // Makes the kernels of all gradients [n, k].
  static void prepare(Impl& impl, int64_t n, int64_t k);
  void run();

 private:
  static constexpr int64_t kMaxChunks = 4, kMaxSide = 384;
  static constexpr int64_t kBlockElements = kMaxSide * kPackedChunkRows;
  // The staging memory of a worker: its columns of dy, then its part of the blocks.
  static constexpr int64_t kBlocksOfWorker =
      static_cast<int64_t>(kStageBytes / sizeof(bf16)) / kBlockElements - kMaxChunks;
  static_assert(kBlocksOfWorker > 0);

  // Some chunks of rows against some slices of columns of x.
  struct Panel {
    std::array<int64_t, kMaxChunks> first_row{}, rows{};
    int64_t chunks = 0;
    int64_t first_slice = 0, slices = 0;
  };

  static KernelKey key(int64_t n, int64_t rows, int64_t columns);
  int64_t take_chunks(int64_t row, int64_t end);
  void pack(int64_t block);
  void multiply(int64_t task, int worker);
  void hold_columns(int64_t tile, int worker);
  bf16* staged(int worker) { return reinterpret_cast<bf16*>(impl_.stage_floats(worker)); }
  bf16* block(int64_t index);

  Impl& impl_;
  const WeightGrad& args_;
  const GradientCut cut_;
  Panel panel_;
  std::vector<int64_t> held_;  // of each worker, the tiles whose columns of dy it has; -1: none
};

}  // namespace rl
