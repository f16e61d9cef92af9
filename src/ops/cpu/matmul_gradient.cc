// Weight gradients in place: one task per tile of grad, summed over row chunks in order
// (ops/matmul_slices.h). Those of bf16 are in matmul_packed_gradient.cc.
#include <cstring>

#include "ops/cpu/matmul_impl.h"
#include "ops/cpu/matmul_packed_gradient.h"

namespace rl {
namespace {

void stage(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to) {
  const int64_t stride = staged_stride(columns);
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * stride, from + r * from_stride, sizeof(float) * columns);
}

}  // namespace

int64_t padded_gradient_rows(int64_t m) {
  return (m + kGradientRowUnit - 1) / kGradientRowUnit * kGradientRowUnit;
}

// fp32 products read their operands in place, row by row, so these are staged into contiguous rows
// first. oneDNN packs bf16 operands itself.
bool Matmul::Impl::stages_gradients() const { return compute == Dtype::kF32; }

KernelKey Matmul::Impl::gradient_key(const GradientTile& t, int64_t chunk_rows, int64_t dy_stride,
                                     int64_t k) const {
  const bool staged = stages_gradients();
  return {t.n,  chunk_rows,
          t.k,  staged ? staged_stride(t.n) : dy_stride,
          true, staged ? staged_stride(t.k) : k,
          k};
}

Matmul::Impl::GradientOperands Matmul::Impl::gradient_operands(const WeightGrad& a,
                                                               const GradientTile& t, int64_t row,
                                                               int64_t chunk_rows, int worker) {
  const auto at = [row](const void* rows, int64_t stride, int64_t column, size_t item) {
    return static_cast<const std::byte*>(rows) +
           (row * stride + column) * static_cast<int64_t>(item);
  };
  const size_t item = dtype_bytes(compute);
  const std::byte *dy = at(a.dy, a.dy_stride, t.n0, item), *x = at(a.x, a.k, t.k0, item);
  if (!stages_gradients()) return {dy, x};
  const int64_t dy_floats = chunk_rows * staged_stride(t.n);
  RL_CHECK((dy_floats + chunk_rows * staged_stride(t.k)) * sizeof(float) <= kStageBytes);
  float* staged = stage_floats(worker);
  stage(reinterpret_cast<const float*>(dy), a.dy_stride, chunk_rows, t.n, staged);
  stage(reinterpret_cast<const float*>(x), a.k, chunk_rows, t.k, staged + dy_floats);
  return {staged, staged + dy_floats};
}

void Matmul::Impl::accumulate_tile(const WeightGrad& a, const GradientTile& t, int worker) {
  const int64_t rows = padded_gradient_rows(a.m);
  for (int64_t row = 0; row < rows;) {
    const int64_t chunk_rows = gradient_chunk_rows(rows - row);
    const GradientOperands operands = gradient_operands(a, t, row, chunk_rows, worker);
    Kernel& made = kernel(gradient_key(t, chunk_rows, a.dy_stride, a.k));
    const dnnl_memory_t x = made.workers[worker].weights.value;
    RL_DNNL(dnnl_memory_set_data_handle(x, const_cast<void*>(operands.x)));
    execute(made, worker, operands.dy, x, a.grad + t.n0 * a.k + t.k0);
    row += chunk_rows;
  }
}

void Matmul::accumulate_weight_grad(const WeightGrad& a) {
  if (impl_->packs_gradients()) return Impl::PackedGradient(*impl_, a).run();
  const GradientCut cut = cut_gradient(a.n, a.k);
  impl_->executor.parallel_for(cut.count(), [&](int64_t task, int worker) {
    impl_->accumulate_tile(a, cut.at(task), worker);
  });
}

void Matmul::prepare_weight_grad(int64_t n, int64_t k, int64_t dy_stride) {
  if (impl_->packs_gradients()) return Impl::PackedGradient::prepare(*impl_, n, k);
  const GradientCut cut = cut_gradient(n, k);
  const int64_t last_n = cut.n.count() - 1, last_k = cut.k.count() - 1;
  for (int64_t chunk_rows = kGradientChunkRows; chunk_rows >= kGradientRowUnit; chunk_rows /= 2) {
    for (const int64_t height : {cut.n.size(0), cut.n.size(last_n)}) {
      for (const int64_t width : {cut.k.size(0), cut.k.size(last_k)})
        impl_->kernel(impl_->gradient_key({0, height, 0, width}, chunk_rows, dy_stride, k));
    }
  }
}

int64_t Matmul::kernels_made() const {
  std::shared_lock lock(impl_->mutex);
  return static_cast<int64_t>(impl_->kernels.size());
}

}  // namespace rl
