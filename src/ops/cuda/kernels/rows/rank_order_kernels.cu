// A thread has up to four elements.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/rank_order_kernels.h"

namespace rl::cuda {
namespace {

RL_DEVICE float value_of_rank(const RankOrderParams& p, int rank, int64_t i) {
  if (rank == p.rank) return load_element(p.dtype, p.own, i);
  return load_element(p.dtype, p.slots, (rank < p.rank ? rank : rank - 1) * p.slot + i);
}

RL_KERNEL void reduce_ranks_kernel(RankOrderParams p) {
  for_each_element(p.count, [&](int64_t i) {
    float all = value_of_rank(p, 0, i);
    for (int rank = 1; rank < p.size; ++rank) {
      const float next = value_of_rank(p, rank, i);
      if (!p.largest)
        all += next;
      else if (next > all || next != next)
        all = next;
    }
    store_element(p.dtype, p.own, i, all);
  });
}

}  // namespace

void reduce_ranks(cudaStream_t stream, const RankOrderParams& params) {
  launch("reduce_ranks", reduce_ranks_kernel, element_blocks(params.count), stream, params);
}

}  // namespace rl::cuda
