// Chunks of the flat arrays, one task each.
#include <algorithm>

#include "ops/convert.h"
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"

namespace rl::cpu {
namespace {

template <typename T>
std::span<T> part(T* all, int64_t first, int64_t count) {
  return {all + first, static_cast<size_t>(count)};
}

constexpr int64_t kTransposeRows = 256;  // of a column that are rounded at a time

}  // namespace

void squared_norm(Compute& compute, const SquaredNormArgs& a) {
  cpu_of(compute).for_chunks(
      a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t chunk) {
        a.chunk_sums[static_cast<size_t>(chunk)] = grad_norm_squared(part(a.values, first, count));
      });
  a.sum = 0;
  for (const double s : a.chunk_sums) a.sum += s;
}

void square_chunk(Compute&, const SquareChunkArgs& a) {
  a.sum = grad_norm_squared(part(a.values.data(), 0, static_cast<int64_t>(a.values.size())));
}

void adamw(Compute& compute, const AdamwArgs& a) {
  cpu_of(compute).for_chunks(a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
    adamw_update(a.step, {part(a.param, first, count), part(a.m, first, count),
                          part(a.v, first, count), part(a.grad, first, count)});
  });
}

void adamw_bf16(Compute& compute, const AdamwBf16Args& a) {
  const AdamwBf16Arrays& all = a.all;
  cpu_of(compute).for_chunks(
      all.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
        adamw_update_bf16(a.step, a.rounding,
                          {all.param + first, all.m + first, all.v + first, all.grad + first, count,
                           all.index + static_cast<uint64_t>(first)});
      });
}

void adamw_int8(Compute& compute, const AdamwInt8Args& a) {
  static_assert(kOptimizerChunk % kInt8Block == 0);
  const AdamwInt8Arrays& all = a.all;
  cpu_of(compute).for_chunks(
      all.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
        const int64_t block = first / kInt8Block;
        adamw_update_int8(a.step, a.rounding,
                          {all.param + first, all.m + first, all.m_scales + block, all.v + first,
                           all.v_scales + block, all.grad + first, count,
                           all.first_block + static_cast<uint64_t>(block)});
      });
}

void scale_add(Compute& compute, const ScaleAddArgs& a) {
  cpu_of(compute).for_chunks(a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
    ScaleAdd part = a.all;
    part.y += first;
    if (part.x != nullptr) part.x += first;
    rl::scale_add(part, count);
  });
}

// Tiles of columns, so that a cache line of `to` is written at once.
void transpose_rows(Compute& compute, const TransposeRowsArgs& a) {
  constexpr int64_t kColumns = 16;
  CpuCompute& cpu = cpu_of(compute);
  cpu.for_chunks(a.columns, kColumns, [&](int64_t first, int64_t count, int64_t) {
    float row[kTransposeRows];
    for (int64_t column = first; column < first + count; ++column) {
      for (int64_t at = 0; at < a.rows; at += kTransposeRows) {
        const int64_t part = std::min(kTransposeRows, a.rows - at);
        for (int64_t i = 0; i < part; ++i) row[i] = a.from[(at + i) * a.columns + column];
        round_elements(row, part, cpu.dtype(), a.to + (column * a.rows + at) * cpu.item());
      }
    }
  });
}

void average_floats(Compute& compute, const AverageFloatsArgs& a) {
  const float weight = ema_weight(a.decay);
  cpu_of(compute).for_chunks(a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
    ema_update(weight, a.weights + first, a.averages + first, count);
  });
}

void add_rounded(Compute& compute, const AddRoundedArgs& a) {
  constexpr int64_t kRows = 16;  // of a task
  const RoundedSum& all = a.all;
  const auto add = [&](int64_t from, int64_t to, int64_t count) {
    rl::add_rounded(a.rounding,
                    {all.from + from, all.to + to, count, all.index + static_cast<uint64_t>(to)});
  };
  CpuCompute& cpu = cpu_of(compute);
  if (a.rows.empty()) {
    return cpu.for_chunks(all.count, kOptimizerChunk,
                          [&](int64_t first, int64_t count, int64_t) { add(first, first, count); });
  }
  const auto rows = static_cast<int64_t>(a.rows.size());
  cpu.for_chunks(rows, kRows, [&](int64_t first, int64_t count, int64_t) {
    for (int64_t r = first; r < first + count; ++r)
      add(r * a.width, a.rows[static_cast<size_t>(r)] * a.width, a.width);
  });
}

void widen_bf16(Compute& compute, const WidenBf16Args& a) {
  cpu_of(compute).for_chunks(a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
    rl::widen_bf16(a.from + first, a.to + first, count);
  });
}

void exchange_floats(Compute& compute, const ExchangeFloatsArgs& a) {
  cpu_of(compute).for_chunks(a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
    std::swap_ranges(a.a + first, a.a + first + count, a.b + first);
  });
}

}  // namespace rl::cpu
