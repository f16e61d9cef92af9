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

RL_DEVICE int32_t word_of_rank(const WordOrderParams& p, int rank, int64_t i) {
  if (rank == p.rank) return p.own[i];
  return p.slots[(rank < p.rank ? rank : rank - 1) * p.slot + i];
}

RL_KERNEL void reduce_words_kernel(WordOrderParams p) {
  for_each_element(p.count, [&](int64_t i) {
    int32_t all = word_of_rank(p, 0, i);
    for (int rank = 1; rank < p.size; ++rank) {
      const int32_t next = word_of_rank(p, rank, i);
      if (!p.largest)
        all = static_cast<int32_t>(static_cast<uint32_t>(all) + static_cast<uint32_t>(next));
      else if (next > all)
        all = next;
    }
    p.own[i] = all;
  });
}

}  // namespace

void reduce_words(cudaStream_t stream, const WordOrderParams& params) {
  launch("reduce_words", reduce_words_kernel, element_blocks(params.count), stream, params);
}

void reduce_ranks(cudaStream_t stream, const RankOrderParams& params) {
  launch("reduce_ranks", reduce_ranks_kernel, element_blocks(params.count), stream, params);
}

}  // namespace rl::cuda
