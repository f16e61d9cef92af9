// Skinny GEMMs, piece by piece: ops/matmul_slices.h splits, ops/few_rows.h computes; the bits stay
// oneDNN's.
#include "ops/cpu/matmul_impl.h"

namespace rl {

FewRowsWeights Matmul::Impl::piece_weights(const PackedMatrix& w, const Piece& p,
                                           int64_t part) const {
  const PackedShape& shape = w.shape();
  const int64_t slice_cols = shape.slices.size(p.slice),
                column = part * (slice_cols / p.parts) + p.first;
  const int64_t block = column / kFewRowsColumnBlock, within = column % kFewRowsColumnBlock;
  const FewRowsForm form = few_rows_form(compute, shape.k, slice_cols);
  return {w.data() + shape.slice_offset[p.slice] + block * form.block_bytes +
              within * kFewRowsColumnBytes,
          form};
}

// Assumes pieces at any columns where parts is 1, which holds for q/k/v in decode. A wrong guess
// only wastes a prefetch.
FewRowsWeights Matmul::Impl::first_weights(const PackedMatrix& next, int worker) const {
  const PackedShape& shape = next.shape();
  if (cpu_form(next).few_rows_chunk == 0)
    return {next.data(), few_rows_form(compute, shape.k, shape.slices.width)};
  const int workers = executor.num_threads();
  const Pieces pieces(shape.slices, shape.cut, workers, shape.cut.parts == 1);
  const TaskShare share = task_share(pieces.count(), worker, workers);
  return piece_weights(next, pieces.at(std::min(share.begin, pieces.count() - 1)), 0);
}

void Matmul::Impl::run_pieces(const Product& p, MatmulEpilogue epilogue) {
  const PackedShape& shape = p.w.shape();
  const int workers = executor.num_threads();
  const Pieces pieces(shape.slices, shape.cut, workers, p.any_columns && shape.cut.parts == 1);
  const int64_t count = pieces.count();
  RL_CHECK(p.out.y == nullptr || shape.cut.parts < 2);
  executor.parallel_for(count, [&](int64_t task, int worker) {
    const Piece piece = pieces.at(task);
    const bool ends_share = task + 1 == task_share(count, worker, workers).end || task + 1 == count;
    const FewRowsWeights ahead = !ends_share ? piece_weights(p.w, pieces.at(task + 1), 0)
                                 : p.next    ? first_weights(*p.next, worker)
                                             : piece_weights(p.w, piece, 0);
    MatmulOutput out{tile(worker), piece.cols};
    if (p.out.y) out = {p.out.y + piece.col0, p.out.stride};
    run_piece(piece, ahead, p, out, worker);
    epilogue({0, p.m, piece.col0, piece.cols, piece.slice, out.y, out.stride, worker});
  });
}

void Matmul::Impl::run_piece(const Piece& piece, const FewRowsWeights& ahead, const Product& p,
                             const MatmulOutput& out, int worker) {
  for (int64_t part = 0; part < piece.parts; ++part) {
    const FewRowsWeights next =
        part + 1 < piece.parts ? piece_weights(p.w, piece, part + 1) : ahead;
    few_rows_product(compute,
                     {p.x, p.m, p.w.shape().k, cpu_form(p.w).few_rows_chunk,
                      piece_weights(p.w, piece, part), piece.width, out.y + part * piece.width,
                      out.stride, reinterpret_cast<float*>(pad(worker)), next});
  }
}

}  // namespace rl
