// Skinny GEMMs, a task per column tile: ops/matmul_slices.h splits, ops/gemm_skinny.h computes; the
// bits stay oneDNN's.
#include "ops/cpu/matmul_impl.h"

namespace rl {

SkinnyWeights Matmul::Impl::column_tile_weights(const PackedMatrix& w, const ColumnTile& p,
                                                int64_t part) const {
  const PackedShape& shape = w.shape();
  const int64_t slice_cols = shape.slices.size(p.slice),
                column = part * (slice_cols / p.parts) + p.first;
  const int64_t block = column / kSkinnyColumnBlock, within = column % kSkinnyColumnBlock;
  const SkinnyLayout layout = skinny_layout(compute, shape.k, slice_cols);
  return {w.data() + shape.slice_offset[p.slice] + block * layout.block_bytes +
              within * kSkinnyColumnBytes,
          layout};
}

// Assumes tiles at any columns where parts is 1, which holds for q/k/v in decode. A wrong guess
// only wastes a prefetch.
SkinnyWeights Matmul::Impl::first_weights(const PackedMatrix& next, int worker) const {
  const PackedShape& shape = next.shape();
  if (cpu_form(next).skinny_chunk == 0)
    return {next.data(), skinny_layout(compute, shape.k, shape.slices.width)};
  const int workers = executor.num_threads();
  const ColumnTiles tiles(shape.slices, shape.cut, workers, shape.cut.parts == 1);
  const TaskShare share = task_share(tiles.count(), worker, workers);
  return column_tile_weights(next, tiles.at(std::min(share.begin, tiles.count() - 1)), 0);
}

void Matmul::Impl::run_column_tiles(const Product& p, MatmulEpilogue epilogue) {
  const PackedShape& shape = p.w.shape();
  const int workers = executor.num_threads();
  const ColumnTiles tiles(shape.slices, shape.cut, workers, p.any_columns && shape.cut.parts == 1);
  const int64_t count = tiles.count();
  RL_CHECK(p.out.y == nullptr || shape.cut.parts < 2);
  executor.parallel_for(count, [&](int64_t task, int worker) {
    const ColumnTile columns = tiles.at(task);
    const bool ends_share = task + 1 == task_share(count, worker, workers).end || task + 1 == count;
    const SkinnyWeights prefetch = !ends_share ? column_tile_weights(p.w, tiles.at(task + 1), 0)
                                   : p.next    ? first_weights(*p.next, worker)
                                               : column_tile_weights(p.w, columns, 0);
    MatmulOutput out{tile(worker), columns.cols};
    if (p.out.y) out = {p.out.y + columns.col0, p.out.stride};
    run_column_tile(columns, prefetch, p, out, worker);
    epilogue({0, p.m, columns.col0, columns.cols, columns.slice, out.y, out.stride, worker});
  });
}

void Matmul::Impl::run_column_tile(const ColumnTile& columns, const SkinnyWeights& prefetch,
                                   const Product& p, const MatmulOutput& out, int worker) {
  for (int64_t part = 0; part < columns.parts; ++part) {
    const SkinnyWeights next =
        part + 1 < columns.parts ? column_tile_weights(p.w, columns, part + 1) : prefetch;
    gemm_skinny(compute, {p.x, p.m, p.w.shape().k, cpu_form(p.w).skinny_chunk,
                          column_tile_weights(p.w, columns, part), columns.width,
                          out.y + part * columns.width, out.stride,
                          reinterpret_cast<float*>(pad(worker)), next});
  }
}

}  // namespace rl
