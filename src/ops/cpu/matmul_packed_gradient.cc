#include "ops/cpu/matmul_packed_gradient.h"

#include <algorithm>
#include <cstring>

#include "ops/compute.h"
#include "ops/cpu/pack_bf16.h"

namespace rl {
namespace {

int64_t whole_blocks(int64_t columns) {
  return (columns + kPackedColumns - 1) / kPackedColumns * kPackedColumns;
}

struct CopyRows {
  const float* from;
  int64_t from_stride, rows, columns;
  float* to;
  int64_t to_stride;
};
// Rows of a gradient are far apart, a new run for the processor each, so they are prefetched.
void copy_rows(const CopyRows& a) {
  constexpr int64_t kRowsAhead = 8, kLineFloats = 16;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* from = a.from + r * a.from_stride;
    float* to = a.to + r * a.to_stride;
    if (r + kRowsAhead < a.rows) {
      for (int64_t i = 0; i < a.columns; i += kLineFloats) {
        __builtin_prefetch(from + kRowsAhead * a.from_stride + i);
        __builtin_prefetch(to + kRowsAhead * a.to_stride + i, 1);
      }
    }
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(a.columns));
  }
}

}  // namespace

bool Matmul::Impl::packs_gradients() const { return compute == Dtype::kBf16 && cpu_has_bf16_dot(); }

Matmul::Impl::PackedGradient::PackedGradient(Impl& impl, const WeightGrad& args)
    : impl_(impl),
      args_(args),
      cut_(cut_packed_gradient(args.n, args.k)),
      held_(static_cast<size_t>(impl.executor.num_threads())) {}

KernelKey Matmul::Impl::PackedGradient::key(int64_t n, int64_t rows, int64_t columns) {
  return {n, rows, whole_blocks(columns), rows, true, 0, 0, true};
}

void Matmul::Impl::PackedGradient::prepare(Impl& impl, int64_t n, int64_t k) {
  const GradientCut cut = cut_packed_gradient(n, k);
  const int64_t last_n = cut.n.count() - 1, last_k = cut.k.count() - 1;
  for (int64_t rows = kPackedChunkRows; rows >= kGradientRowUnit; rows /= 2) {
    for (const int64_t height : {cut.n.size(0), cut.n.size(last_n)}) {
      for (const int64_t width : {cut.k.size(0), cut.k.size(last_k)})
        impl.kernel(key(height, rows, width));
    }
  }
}

// As many chunks as leave room for all slices, but at least one.
void Matmul::Impl::PackedGradient::run() {
  const int64_t slices = cut_.k.count(), room = kBlocksOfWorker * impl_.executor.num_threads();
  const int64_t rows = padded_gradient_rows(args_.m);
  for (int64_t row = 0; row < rows;) {
    row = take_chunks(row, rows);
    panel_.slices = room / panel_.chunks;
    for (panel_.first_slice = 0; panel_.first_slice < slices; panel_.first_slice += panel_.slices) {
      panel_.slices = std::min(panel_.slices, slices - panel_.first_slice);
      std::ranges::fill(held_, -1);
      impl_.executor.parallel_for(panel_.chunks * panel_.slices,
                                  [&](int64_t block, int) { pack(block); });
      impl_.executor.parallel_for(cut_.n.count() * panel_.slices,
                                  [&](int64_t task, int worker) { multiply(task, worker); });
    }
  }
}

// Returns the first row after them.
int64_t Matmul::Impl::PackedGradient::take_chunks(int64_t row, int64_t end) {
  const int64_t room = kBlocksOfWorker * impl_.executor.num_threads();
  const int64_t most = std::clamp<int64_t>(room / cut_.k.count(), 1, kMaxChunks);
  for (panel_.chunks = 0; panel_.chunks < most && row < end; ++panel_.chunks) {
    const auto c = static_cast<size_t>(panel_.chunks);
    panel_.first_row[c] = row;
    panel_.rows[c] = gradient_chunk_rows(end - row, kPackedChunkRows);
    row += panel_.rows[c];
  }
  return row;
}

bf16* Matmul::Impl::PackedGradient::block(int64_t index) {
  const int64_t worker = index / kBlocksOfWorker, within = index % kBlocksOfWorker;
  return staged(static_cast<int>(worker)) + (kMaxChunks + within) * kBlockElements;
}

void Matmul::Impl::PackedGradient::pack(int64_t index) {
  const auto c = static_cast<size_t>(index / panel_.slices);
  const int64_t slice = panel_.first_slice + index % panel_.slices;
  const auto* x = static_cast<const bf16*>(args_.x) + panel_.first_row[c] * args_.k;
  RL_CHECK(whole_blocks(cut_.k.size(slice)) <= kMaxSide);
  pack_bf16_rows({x + cut_.k.first(slice), panel_.rows[c], cut_.k.size(slice), args_.k},
                 block(index));
}

// Neighbouring tasks share columns of dy.
void Matmul::Impl::PackedGradient::multiply(int64_t task, int worker) {
  const int64_t i = task / panel_.slices, s = task % panel_.slices;
  const int64_t slice = panel_.first_slice + s;
  const int64_t height = cut_.n.size(i), width = cut_.k.size(slice), dense = whole_blocks(width);
  float *tile = impl_.tile(worker), *grad = args_.grad + cut_.n.first(i) * args_.k;
  grad += cut_.k.first(slice);
  hold_columns(i, worker);
  copy_rows({grad, args_.k, height, width, tile, dense});
  for (int64_t c = 0; c < panel_.chunks; ++c) {
    Kernel& made = impl_.kernel(key(height, panel_.rows[static_cast<size_t>(c)], width));
    const dnnl_memory_t x = made.workers[static_cast<size_t>(worker)].weights.value;
    RL_DNNL(dnnl_memory_set_data_handle(x, block(c * panel_.slices + s)));
    impl_.execute(made, worker, staged(worker) + c * kBlockElements, x, tile);
  }
  copy_rows({tile, dense, height, width, grad, args_.k});
}

void Matmul::Impl::PackedGradient::hold_columns(int64_t i, int worker) {
  int64_t& held = held_[static_cast<size_t>(worker)];
  if (held == i) return;
  RL_CHECK(cut_.n.size(i) <= kMaxSide);
  for (int64_t c = 0; c < panel_.chunks; ++c) {
    const auto at = static_cast<size_t>(c);
    const auto* dy = static_cast<const bf16*>(args_.dy) + panel_.first_row[at] * args_.dy_stride;
    transpose_bf16_rows({dy + cut_.n.first(i), panel_.rows[at], cut_.n.size(i), args_.dy_stride},
                        staged(worker) + c * kBlockElements);
  }
  held = i;
}

}  // namespace rl
