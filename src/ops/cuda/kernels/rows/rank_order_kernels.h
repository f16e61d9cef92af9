// Reductions over ranks in their written order (comm/rank_order.h), with the same operations, so
// the same bits: fp32 is added in fp32; bf16 is added in fp32 and rounded once, at the end. No
// element depends on another.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"

namespace rl::cuda {

struct RankOrderParams {
  const void* slots;  // the values of the other ranks, in their order, in elements of the dtype
  int64_t slot;       // elements from the values of one rank to those of the next
  void* own;          // the values of this rank, and the result
  Dtype dtype;
  int rank, size;
  bool largest;  // the maximum, and not the sum; of numbers of which one is NaN it is NaN
  int64_t count;
};
void reduce_ranks(cudaStream_t stream, const RankOrderParams& params);

// The same of int32, whose sums wrap around.
struct WordOrderParams {
  const int32_t* slots;
  int64_t slot;
  int32_t* own;
  int rank, size;
  bool largest;
  int64_t count;
};
void reduce_words(cudaStream_t stream, const WordOrderParams& params);

}  // namespace rl::cuda
