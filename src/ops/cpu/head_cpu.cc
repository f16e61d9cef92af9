// From hidden states to log-probs and values. Values are computed row after row in both directions;
// the forward is split by rows, the backward by columns.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "ops/convert.h"
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"

namespace rl {
namespace {

constexpr int64_t kValueRowsPerTask = 16;
constexpr int64_t kValueColumnsPerTask = 64;
constexpr int64_t kScatterColumnsPerTask = 128;
constexpr int64_t kLogitsPerTask = 1 << 15;

template <typename T>
float dot(const T* h, const float* w, int64_t n) {
  std::array<float, kValueLanes> lanes{};
  int64_t c = 0;
  for (; c + kValueLanes <= n; c += kValueLanes) {
    for (int64_t j = 0; j < kValueLanes; ++j) lanes[j] += to_float(h[c + j]) * w[c + j];
  }
  for (int64_t j = 0; c + j < n; ++j) lanes[j] += to_float(h[c + j]) * w[c + j];
  for (int64_t half = kValueLanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

// Calls work(pointer to the first element of hidden), typed.
template <typename Work>
void with_type(Dtype dtype, const std::byte* hidden, const Work& work) {
  if (dtype == Dtype::kF32) {
    work(reinterpret_cast<const float*>(hidden));
  } else {
    work(reinterpret_cast<const bf16*>(hidden));
  }
}

}  // namespace

namespace cpu {

void gather_rows(Compute&, const GatherRowsArgs& a) {
  for (size_t i = 0; i < a.rows.size(); ++i) {
    std::memcpy(a.to + i * a.row_bytes, a.from + static_cast<uint64_t>(a.rows[i]) * a.row_bytes,
                a.row_bytes);
  }
}

void scatter_add_rows(Compute& compute, const ScatterAddRowsArgs& a) {
  const auto add_columns = [&](int64_t first, int64_t count, int64_t) {
    for (size_t i = 0; i < a.rows.size(); ++i) {
      add_elements(a.from + static_cast<int64_t>(i) * a.width + first, count,
                   a.to + a.rows[i] * a.width + first);
    }
  };
  cpu_of(compute).for_chunks(a.width, kScatterColumnsPerTask, add_columns);
}

// Statistics of each tile in the product's epilogue, then their combination.
void head_logits(Compute& compute, const HeadLogitsArgs& a) {
  const auto rows = static_cast<int64_t>(a.inv_temperature.size());
  const ColumnSlices& slices = a.w.shape().slices;
  const int64_t num_tiles = slices.count();
  cpu_of(compute).matmul().run(a.w, a.x, rows, [&](const MatmulTile& t) {
    for (int64_t r = 0; r < t.rows; ++r) {
      const int64_t row = t.row0 + r;
      a.tiles[row * num_tiles + t.slice] = scale_and_measure(
          {t.data + r * t.stride, t.cols, a.inv_temperature[row], a.z + row * slices.n + t.col0});
    }
  });
  cpu::combine_tiles(compute, {a.tiles, a.stats, rows, num_tiles});
}

void combine_tiles(Compute&, const CombineTilesArgs& a) {
  for (int64_t row = 0; row < a.rows; ++row)
    a.stats[row] = rl::combine_tiles(a.tiles + row * a.count, a.count);
}

void head_logprobs(Compute&, const HeadLogprobsArgs& a) {
  for (size_t i = 0; i < a.ids.size(); ++i) {
    const float* row = a.z + static_cast<int64_t>(i) * a.vocab;
    a.logprobs[i] = log_prob(row[a.ids[i]], a.stats[i]);
    if (!a.entropies.empty()) a.entropies[i] = a.stats[i].entropy;
  }
}

void distill_rows(Compute& compute, const DistillRowsArgs& a) {
  const auto vocab = static_cast<size_t>(a.vocab);
  cpu_of(compute).executor().parallel_for(
      static_cast<int64_t>(a.weight.size()), [&](int64_t r, int) {
        const auto i = static_cast<size_t>(r);
        const std::span student(a.student + r * a.vocab, vocab);
        const std::span teacher(a.teacher + r * a.vocab, vocab);
        a.value[i] = 0;
        if (a.weight[i] == 0) {
          std::ranges::fill(teacher, 0.0f);
          return;
        }
        const RowStats &mine = a.student_stats[i], &its = a.teacher_stats[i];
        a.value[i] = distill_logits(
            a.params, {student, {mine.max, mine.log_sum}, teacher, {its.max, its.log_sum}},
            a.coef * a.weight[i]);
      });
}

void head_logits_backward(Compute& compute, const HeadLogitsBackwardArgs& a) {
  CpuCompute& cpu = cpu_of(compute);
  const int64_t count = a.count(), row_bytes = count * cpu.item();
  const int64_t most = std::max<int64_t>(1, kLogitsPerTask / count);
  cpu.for_chunks(
      static_cast<int64_t>(a.ids.size()), most, [&](int64_t row0, int64_t rows, int64_t) {
        for (int64_t r = row0; r < row0 + rows; ++r) {
          const int64_t at = r * a.vocab + a.first;
          logits_backward({a.z + at, count, a.stats[r], a.ids[r] - a.first, a.d_logprob[r],
                           a.d_entropy[r], a.inv_temperature[r], a.d_logits + r * row_bytes,
                           cpu.dtype(), a.d_tempered ? a.d_tempered + at : nullptr});
        }
      });
}

void value_rows(Compute& compute, const ValueRowsArgs& a) {
  with_type(compute.dtype(), a.hidden, [&](const auto* h) {
    cpu_of(compute).for_chunks(static_cast<int64_t>(a.rows.size()), kValueRowsPerTask,
                               [&](int64_t first, int64_t count, int64_t) {
                                 for (int64_t i = first; i < first + count; ++i)
                                   a.values[i] = dot(h + a.rows[i] * a.width, a.w, a.width);
                               });
  });
}

void value_rows_backward(Compute& compute, const ValueRowsBackwardArgs& a) {
  with_type(compute.dtype(), a.hidden, [&](const auto* h) {
    cpu_of(compute).for_chunks(a.width, kValueColumnsPerTask,
                               [&](int64_t first, int64_t count, int64_t) {
                                 for (size_t i = 0; i < a.rows.size(); ++i) {
                                   const float d = a.d_value[i];
                                   const auto* from = h + a.rows[i] * a.width;
                                   float* to = a.d_hidden + a.rows[i] * a.width;
                                   for (int64_t c = first; c < first + count; ++c)
                                     to[c] += d * a.w[c];
                                   if (a.grad == nullptr) continue;
                                   for (int64_t c = first; c < first + count; ++c)
                                     a.grad[c] += d * to_float(from[c]);
                                 }
                               });
  });
}

}  // namespace cpu
}  // namespace rl
