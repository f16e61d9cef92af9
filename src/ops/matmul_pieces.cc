// Products of few rows, piece by piece: ops/few_rows.h computes, oneDNN's bits stay.
#include "ops/matmul_pieces.h"

#include "ops/matmul_impl.h"

namespace rl {
namespace {

// The weights that a worker reads once its own share of the pieces ends.
const std::byte* first_weights(const PackedMatrix& next, int worker, int workers) {
  const Pieces pieces(next);
  const TaskShare share = task_share(pieces.count(), worker, workers);
  return pieces.weights(pieces.at(std::min(share.begin, pieces.count() - 1)), 0);
}

}  // namespace

void Matmul::Impl::run_pieces(const Product& p, MatmulEpilogue epilogue) {
  const Pieces pieces(p.w);
  const int64_t count = pieces.count();
  const int workers = executor.num_threads();
  RL_CHECK(p.out.y == nullptr || p.w.shape_.cut.parts < 2);
  executor.parallel_for(count, [&](int64_t task, int worker) {
    const Piece piece = pieces.at(task);
    const bool ends_share = task + 1 == task_share(count, worker, workers).end || task + 1 == count;
    const std::byte* ahead = !ends_share ? pieces.weights(pieces.at(task + 1), 0)
                             : p.next    ? first_weights(*p.next, worker, workers)
                                         : pieces.weights(piece, 0);
    MatmulOutput out{tile(worker), piece.cols};
    if (p.out.y) out = {p.out.y + piece.col0, p.out.stride};
    run_piece(pieces, piece, ahead, p, out, worker);
    epilogue({0, p.m, piece.col0, piece.cols, piece.slice, out.y, out.stride, worker});
  });
}

void Matmul::Impl::run_piece(const Pieces& pieces, const Piece& piece, const std::byte* ahead, const Product& p,
                             const MatmulOutput& out, int worker) {
  for (int64_t part = 0; part < piece.parts; ++part) {
    const std::byte* next = part + 1 < piece.parts ? pieces.weights(piece, part + 1) : ahead;
    few_rows_product({static_cast<const bf16*>(p.x), p.m, p.w.shape_.k, p.w.few_rows_chunk_,
                      pieces.weights(piece, part), piece.width, out.y + part * piece.width, out.stride,
                      reinterpret_cast<float*>(pad(worker)), next});
  }
}

}  // namespace rl
