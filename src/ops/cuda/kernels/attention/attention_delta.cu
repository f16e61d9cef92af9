#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_backward.h"

namespace rl::cuda {
namespace {

constexpr int kDeltaThreads = 256;

// A warp for each place.
RL_KERNEL void RL_BOUNDS(kDeltaThreads, 1) attention_delta_kernel(AttentionDeltaParams p) {
  const int64_t place = block_x() * block_warps() + warp_index();
  const bool exists = place < p.places;
  float sum = 0;
  if (exists) {
    for (int d = lane_index(); d < p.head_dim; d += kLanes) {
      const int64_t at = place * p.head_dim + d;
      sum = fma_rn(p.d_out[at], load_element(p.dtype, p.out, at), sum);
    }
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
  if (exists && lane_index() == 0) p.delta[place] = sum;
}

}  // namespace

void attention_delta(cudaStream_t stream, const AttentionDeltaParams& params) {
  constexpr int kWarps = kDeltaThreads / kLanes;
  launch("attention_delta", attention_delta_kernel,
         {(params.places + kWarps - 1) / kWarps, kDeltaThreads}, stream, params);
}

}  // namespace rl::cuda
