// Chunks of the flat arrays, one task each.
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"

namespace rl::cpu {
namespace {

template <typename T>
std::span<T> part(T* all, int64_t first, int64_t count) {
  return {all + first, static_cast<size_t>(count)};
}

}  // namespace

void squared_norm(Compute& compute, const SquaredNormArgs& a) {
  cpu_of(compute).for_chunks(
      a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t chunk) {
        a.chunk_sums[static_cast<size_t>(chunk)] = grad_norm_squared(part(a.values, first, count));
      });
  a.sum = 0;
  for (const double s : a.chunk_sums) a.sum += s;
}

void adamw(Compute& compute, const AdamwArgs& a) {
  cpu_of(compute).for_chunks(a.count, kOptimizerChunk, [&](int64_t first, int64_t count, int64_t) {
    adamw_update(a.step, {part(a.param, first, count), part(a.m, first, count),
                          part(a.v, first, count), part(a.grad, first, count)});
  });
}

}  // namespace rl::cpu
