// Products and the steps that follow them. A product that is not kept goes to scratch, as many rows
// at a time as fit; rows do not depend on each other, so that changes no bit.
#include <algorithm>

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/gated_kernels.h"
#include "ops/cuda/kernels/rows/norm_kernels.h"
#include "ops/cuda/norm_cuda.h"
#include "ops/cuda/products.h"
#include "ops/cuda/rope_cuda.h"

namespace rl::cuda {
namespace {

// Some rows of a product, in memory of the op or in scratch.
struct ProductRows {
  int64_t first, count;
  float* y;  // (count, n)
};

// step(rows) after each part of the product; `keep`, if given, is the memory for all rows.
template <typename Step>
void multiply_in_parts(CudaCompute& gpu, const PackedMatrix& w, const std::byte* x, int64_t rows,
                       float* keep, const Step& step) {
  gpu.products().prepare(w);
  const int64_t n = w.shape().slices.n, x_bytes = w.shape().k * gpu.item();
  const int64_t part =
      keep != nullptr ? rows : std::min(rows, gpu.scratch_rows(n * int64_t{sizeof(float)}));
  float* const y = keep != nullptr || rows == 0 ? keep : gpu.scratch<float>(part * n);
  for (int64_t first = 0; first < rows; first += part) {
    const ProductRows some{first, std::min(part, rows - first), y};
    gpu.products().multiply(w, x + first * x_bytes, some.count, y);
    step(some);
  }
}

std::byte* part_of(std::byte* all, int64_t at) { return all != nullptr ? all + at : nullptr; }

RopeKvArgs heads_of(const RopeKvArgs& all, const ProductRows& rows) {
  RopeKvArgs some = all;
  const AttentionShape& s = all.shape;
  some.qkv = rows.y;
  some.places += rows.first;
  some.q = static_cast<std::byte*>(all.q) +
           rows.first * s.heads * s.padded_dim() * static_cast<int64_t>(dtype_bytes(s.dtype));
  some.rows = rows.count;
  return some;
}

}  // namespace

void project_qkv(Compute& compute, const ProjectQkvArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  float* const keep = a.result == QkvResult::kHeads ? nullptr : a.qkv;
  multiply_in_parts(gpu, a.w, a.x, a.heads.rows, keep, [&](const ProductRows& rows) {
    if (a.result != QkvResult::kProjection) rope_and_write_kv(gpu, heads_of(a.heads, rows));
  });
}

void project_residual(Compute& compute, const ProjectResidualArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const int64_t hidden = a.w.shape().slices.n;
  float* const keep = a.norm.weight != nullptr ? a.product : nullptr;
  multiply_in_parts(gpu, a.w, a.x, a.rows, keep, [&](const ProductRows& rows) {
    const int64_t at = rows.first * hidden;
    add_norm_rows(gpu.stream(), {.added = rows.y,
                                 .added_norm = norm_params(a.norm),
                                 .residual = a.residual + at,
                                 .sum = a.sum + at,
                                 .norm = norm_params(a.then.norm),
                                 .y = part_of(a.then.y, at * gpu.item()),
                                 .dtype = gpu.dtype(),
                                 .rows = rows.count,
                                 .hidden = hidden});
  });
}

void add_residual(Compute& compute, const AddResidualArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  if (a.rows == 0) return;
  add_norm_rows(gpu.stream(), {.added = a.product,
                               .added_norm = norm_params(a.norm),
                               .residual = a.residual,
                               .sum = a.sum,
                               .norm = norm_params(a.then.norm),
                               .y = a.then.y,
                               .dtype = gpu.dtype(),
                               .rows = a.rows,
                               .hidden = a.hidden});
}

void project_gated(Compute& compute, const ProjectGatedArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const int64_t ffn = a.w.shape().slices.n / 2;
  multiply_in_parts(gpu, a.w, a.x, a.rows, nullptr, [&](const ProductRows& rows) {
    const int64_t at = rows.first * ffn * gpu.item();
    gate_product(gpu.stream(), {.product = rows.y,
                                .h = a.h + at,
                                .gate_up = part_of(a.gate_up, 2 * at),
                                .dtype = gpu.dtype(),
                                .rows = rows.count,
                                .ffn = ffn,
                                .activation = a.activation});
  });
}

void project(Compute& compute, const ProjectArgs& a) {
  if (a.rows == 0) return;
  Products& products = cuda_of(compute).products();
  a.in_forward ? products.multiply(a.w, a.x, a.rows, a.y)
               : products.multiply_back(a.w, a.x, a.rows, a.y);
}

void project_gated_backward(Compute& compute, const ProjectGatedBackwardArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const int64_t ffn = a.w.shape().slices.n;
  multiply_in_parts(gpu, a.w, a.dy, a.rows, nullptr, [&](const ProductRows& rows) {
    const int64_t at = 2 * rows.first * ffn * gpu.item();
    gate_backward(gpu.stream(), {.dh = rows.y,
                                 .gate_up = a.gate_up + at,
                                 .d_gate_up = a.d_gate_up + at,
                                 .dtype = gpu.dtype(),
                                 .rows = rows.count,
                                 .ffn = ffn,
                                 .activation = a.activation});
  });
  if (a.h != nullptr) cuda::glu_rows(compute, {a.gate_up, a.h, a.rows, ffn, a.activation});
}

}  // namespace rl::cuda
