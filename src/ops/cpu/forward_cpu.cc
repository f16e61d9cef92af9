// The forward's ops. Each product's epilogue finishes its tile in place; with few rows the task of
// the last tile also norms the residual. Sandwich norms need whole rows, so they take a separate
// pass before the residual.
#include <atomic>

#include "ops/convert.h"
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows_of.h"
#include "ops/embedding.h"

namespace rl {
namespace {

constexpr int64_t kRowsPerTask = 8;  // few, so that a decode step of 16 rows is still shared

void norm_residual(CpuCompute& cpu, const float* x, const NextNorm& then, const RowBlock& block) {
  rms_norm(rows_of(then, x, cpu.dtype(), block));
}

// to = from + tile on the tile's rows and columns.
void add_tile(const MatmulTile& t, const float* from, float* to, int64_t stride) {
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t at = (t.row0 + r) * stride + t.col0;
    sum_elements(from + at, t.data + r * t.cols, t.cols, to + at);
  }
}

// A few rows are normed by the task that completes them: a core norms that many floats in 3 us
// (Zen 3), and only more rows are worth a pass of all threads.
void add_and_norm(CpuCompute& cpu, const ProjectResidualArgs& a) {
  constexpr int64_t kFewFloats = 1 << 14;
  const int64_t n = a.rows, hidden = a.w.shape().slices.n;
  const bool few = n * hidden <= kFewFloats;
  std::atomic<int64_t> missing{n * hidden};
  cpu.matmul().run(
      a.w, a.x, n,
      [&](const MatmulTile& t) {
        add_tile(t, a.residual, a.sum, hidden);
        const int64_t done = t.rows * t.cols;
        // The last task acquires what the others released: their tiles.
        if (few && missing.fetch_sub(done, std::memory_order_acq_rel) == done)
          norm_residual(cpu, a.sum, a.then, {0, n, hidden});
      },
      a.next);
  if (few) return;
  cpu.for_chunks(n, kRowsPerTask, [&](int64_t row0, int64_t rows, int64_t) {
    norm_residual(cpu, a.sum, a.then, {row0, rows, hidden});
  });
}

}  // namespace

namespace cpu {

void embed_rows(Compute& compute, const EmbedRowsArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const auto n = static_cast<int64_t>(a.ids.size());
  cpu.for_chunks(n, kRowsPerTask, [&](int64_t row0, int64_t rows, int64_t) {
    embed({a.table, a.ids.data() + row0, rows, a.hidden, a.scale, cpu.dtype(),
           a.x + row0 * a.hidden});
    norm_residual(cpu, a.x, a.then, {row0, rows, a.hidden});
  });
}

void project_qkv(Compute& compute, const ProjectQkvArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const MatmulOutput out{a.qkv, a.w.shape().slices.n};
  const int64_t n = a.heads.rows, head_dim = a.heads.shape.head_dim;
  if (a.result == QkvResult::kProjection) return cpu.matmul().run_into(out, a.w, a.x, n, a.next);
  const auto write = [&](const MatmulTile& t) {
    RopeKvArgs heads = rows_of(a.heads, {t.row0, t.rows}, t.data);
    heads.first_head = t.col0 / head_dim;
    heads.end_head = (t.col0 + t.cols) / head_dim;
    heads.stride = t.stride;
    rope_and_write_kv(heads);
  };
  if (a.result == QkvResult::kBoth)
    cpu.matmul().run_into(out, a.w, a.x, n, write, a.next);
  else
    cpu.matmul().run(a.w, a.x, n, write, a.next);
}

void copy_partial_blocks(Compute& compute, const CopyPartialBlocksArgs& a) {
  const int64_t block = a.shape.block_size;
  cpu_of(compute).executor().parallel_for(
      static_cast<int64_t>(a.sequences.size()), [&](int64_t i, int) {
        const SequenceRows& s = a.sequences[i];
        if (s.prefix_sequence < 0 || s.first_position % block == 0) return;
        const int64_t at = s.first_position / block;
        copy_kv({a.shape, a.pool, a.sequences[s.prefix_sequence].blocks[at], s.blocks[at],
                 s.first_position % block});
      });
}

void project_residual(Compute& compute, const ProjectResidualArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  if (a.norm.weight == nullptr) return add_and_norm(cpu, a);
  const int64_t hidden = a.w.shape().slices.n;
  cpu.matmul().run_into({a.product, hidden}, a.w, a.x, a.rows, a.next);
  cpu::add_residual(compute, {a.product, a.rows, hidden, a.residual, a.sum, a.norm, a.then});
}

void add_residual(Compute& compute, const AddResidualArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  cpu.for_chunks(a.rows, kRowsPerTask, [&](int64_t row0, int64_t rows, int64_t) {
    const int64_t at = row0 * a.hidden;
    if (a.norm.weight != nullptr) {
      rms_norm_add({a.product + at, a.norm.weight, a.residual + at, a.sum + at, rows, a.hidden,
                    a.norm.eps, a.norm.kind});
    } else {
      sum_elements(a.residual + at, a.product + at, rows * a.hidden, a.sum + at);
    }
    norm_residual(cpu, a.sum, a.then, {row0, rows, a.hidden});
  });
}

void project_gated(Compute& compute, const ProjectGatedArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const int64_t ffn = a.w.shape().slices.n / 2, item = cpu.item();
  cpu.matmul().run(
      a.w, a.x, a.rows,
      [&](const MatmulTile& t) {
        const int64_t col0 = t.col0 / 2, row_gu = t.row0 * 2 * ffn;
        std::byte* gate = a.gate_up ? a.gate_up + (row_gu + col0) * item : nullptr;
        std::byte* up = a.gate_up ? gate + ffn * item : nullptr;
        glu({t.data, a.h + (t.row0 * ffn + col0) * item, gate, up, ffn, 2 * ffn, cpu.dtype(),
             t.rows, t.cols / 2, a.activation});
      },
      a.next);
}

}  // namespace cpu
}  // namespace rl
