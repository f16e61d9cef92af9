// The backward's ops. Cheap values (norm outputs, gated units) are recomputed; they have the
// forward's bits because the same kernels compute them from the same saved inputs.
#include <algorithm>
#include <cstring>

#include "ops/convert.h"
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/rows_of.h"
#include "ops/embedding.h"

namespace rl {
namespace {

constexpr int64_t kEmbedColumns = 64;

// Adds the sums of every chunk, in order, to a gradient vector. Chunks are `stride` floats apart.
void add_chunks(const float* partial, int64_t rows, int64_t stride, std::span<float> grad) {
  for (int64_t chunk = 0; chunk < num_gradient_chunks(rows); ++chunk)
    add_elements(partial + chunk * stride, static_cast<int64_t>(grad.size()), grad.data());
}

std::span<float> vector_of(float* data, int64_t size) { return {data, static_cast<size_t>(size)}; }

// Rows are row_bytes long and stride_bytes apart.
void zero_rows_after(std::byte* data, int64_t rows, int64_t row_bytes, int64_t stride_bytes) {
  for (int64_t r = rows; r < padded_gradient_rows(rows); ++r)
    std::memset(data + r * stride_bytes, 0, row_bytes);
}

// The same arguments for some rows; d_norm is the chunk's sum.
RopeBackwardArgs rows_of(const RopeBackwardArgs& all, int64_t row0, int64_t rows, float* d_norm) {
  const int64_t width = (all.shape.heads + 2 * all.shape.kv_heads) * all.shape.head_dim;
  const auto item = static_cast<int64_t>(dtype_bytes(all.shape.dtype));
  RopeBackwardArgs part = all;
  part.dqkv = all.dqkv + row0 * width;
  part.places = all.places + row0;
  part.dqkv_rounded = static_cast<std::byte*>(all.dqkv_rounded) + row0 * width * item;
  part.rows = rows;
  if (all.norm == nullptr) return part;
  part.qkv = all.qkv + row0 * width;
  part.d_norm = d_norm;
  return part;
}

}  // namespace

namespace cpu {

void project(Compute& compute, const ProjectArgs& a) {
  cpu_of(compute).matmul().run_into({a.y, a.w.shape().slices.n}, a.w, a.x, a.rows);
}

void weight_gradient(Compute& compute, const WeightGradientArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const int64_t item = cpu.item(), dy_stride = a.dy_stride != 0 ? a.dy_stride : a.n;
  zero_rows_after(a.dy, a.rows, a.n * item, dy_stride * item);
  zero_rows_after(a.x, a.rows, a.k * item, a.k * item);
  cpu.matmul().accumulate_weight_grad({a.dy, dy_stride, a.x, a.rows, a.n, a.k, a.grad});
}

void norm_rows(Compute& compute, const NormRowsArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  cpu.for_chunks(a.rows, kGradientRows, [&](int64_t row0, int64_t rows, int64_t) {
    rms_norm(rows_of({a.norm, a.y}, a.x, cpu.dtype(), {row0, rows, a.hidden}));
  });
}

void norm_rows_backward(Compute& compute, const NormRowsBackwardArgs& a) {
  cpu_of(compute).for_chunks(a.rows, kGradientRows, [&](int64_t row0, int64_t rows, int64_t chunk) {
    const int64_t at = row0 * a.hidden;
    float* dw = a.partial + chunk * a.hidden;
    std::fill_n(dw, a.hidden, 0.0f);
    rms_norm_backward({a.x + at, a.norm.weight, a.dy + at, a.dx + at, dw, rows, a.hidden,
                       a.norm.eps, a.norm.kind});
  });
  if (a.grad != nullptr) add_chunks(a.partial, a.rows, a.hidden, vector_of(a.grad, a.hidden));
}

void round_floats(Compute& compute, const RoundFloatsArgs& a) {
  constexpr int64_t kFloatsPerTask = 1 << 15;
  CpuCompute& cpu = cpu_of(compute);
  cpu.for_chunks(a.count, kFloatsPerTask, [&](int64_t first, int64_t count, int64_t) {
    round_elements(a.from + first, count, cpu.dtype(), a.to + first * cpu.item());
  });
}

void glu_rows(Compute& compute, const GluRowsArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const int64_t item = cpu.item();
  cpu.for_chunks(a.rows, kGradientRows, [&](int64_t row0, int64_t rows, int64_t) {
    glu_recompute({a.gate_up + row0 * 2 * a.ffn * item, a.h + row0 * a.ffn * item, cpu.dtype(),
                   rows, a.ffn, a.activation});
  });
}

void project_gated_backward(Compute& compute, const ProjectGatedBackwardArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const int64_t ffn = a.w.shape().slices.n, row_bytes = ffn * cpu.item();
  cpu.matmul().run(a.w, a.dy, a.rows, [&](const MatmulTile& t) {
    glu_backward({t.data, a.gate_up + t.row0 * 2 * row_bytes, a.d_gate_up + t.row0 * 2 * row_bytes,
                  cpu.dtype(), t.rows, t.col0, t.cols, ffn, a.activation,
                  a.h ? a.h + t.row0 * row_bytes : nullptr});
  });
}

void rope_rows_backward(Compute& compute, const RopeRowsBackwardArgs& a) {
  const AttentionShape& shape = a.rope.shape;
  const int64_t q = shape.heads * shape.head_dim, qkv = q + 2 * shape.kv_heads * shape.head_dim;
  const int64_t width = 2 * shape.head_dim;
  cpu_of(compute).for_chunks(
      a.rope.rows, kGradientRows, [&](int64_t row0, int64_t rows, int64_t chunk) {
        a.work.add_sums(row0, rows, [&](int64_t row) { return a.rope.dqkv + row * qkv + q; });
        float* d_norm = a.partial + chunk * width;
        if (a.rope.norm != nullptr) std::fill_n(d_norm, width, 0.0f);
        rope_backward(rows_of(a.rope, row0, rows, d_norm));
      });
  const auto add_norm = [&](const float* sums, float* grad) {
    if (grad != nullptr) add_chunks(sums, a.rope.rows, width, vector_of(grad, shape.head_dim));
  };
  if (a.rope.norm == nullptr) return;
  add_norm(a.partial, a.q_norm_grad);
  add_norm(a.partial + shape.head_dim, a.k_norm_grad);
}

void bias_gradient(Compute& compute, const BiasGradientArgs& a) {
  const int64_t stride = a.dy_stride != 0 ? a.dy_stride : a.width;
  cpu_of(compute).for_chunks(a.rows, kGradientRows, [&](int64_t row0, int64_t rows, int64_t chunk) {
    float* sum = a.partial + chunk * a.width;
    std::fill_n(sum, a.width, 0.0f);
    for (int64_t r = 0; r < rows; ++r) add_elements(a.dy + (row0 + r) * stride, a.width, sum);
  });
  add_chunks(a.partial, a.rows, a.width, vector_of(a.grad, a.width));
}

void embed_rows_backward(Compute& compute, const EmbedRowsBackwardArgs& a) {
  const auto rows = static_cast<int64_t>(a.ids.size());
  cpu_of(compute).for_chunks(a.hidden, kEmbedColumns, [&](int64_t col0, int64_t cols, int64_t) {
    embed_backward({a.dx, a.ids.data(), rows, a.hidden, col0, cols, a.scale, a.grad});
  });
}

}  // namespace cpu
}  // namespace rl
