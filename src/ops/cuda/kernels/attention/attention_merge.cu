#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_forward.h"
#include "ops/cuda/kernels/attention/attention_places.h"
#include "ops/cuda/kernels/attention/attention_softmax.h"

namespace rl::cuda {
namespace {

constexpr int kMergeThreads = 128;

// A warp for each pair; a lane has every 32nd value.
RL_KERNEL void RL_BOUNDS(kMergeThreads, 1) attend_merged_kernel(AttendMergedParams p) {
  const MergedTile tile = p.tiles[block_x()];
  const AttentionSizes& s = p.sizes;
  const TilePairs pairs{s, p.runs[tile.run], tile.first_pair, tile.end_pair,
                        static_cast<int>(block_y())};
  for (int index = warp_index(); index < pairs.count(); index += block_warps()) {
    const int64_t out = pairs.place(index);
    // Where the partial result of a split lies.
    const auto place_of = [&](int split) {
      const int64_t pair = tile.partial + int64_t{split} * pairs.count() + index;
      return pair * s.kv_heads + pairs.kv_head;
    };
    for (int column = lane_index(); column < s.width; column += kLanes) {
      SoftmaxState merged;
      float value = 0;
      for (int split = 0; split < tile.splits; ++split) {
        const int64_t place = place_of(split);
        const SoftmaxState state{p.partial_states[2 * place], p.partial_states[2 * place + 1]};
        const SoftmaxFactors factors = merge_state(merged, state);
        value = merge_value(value, p.partial_values[place * s.width + column], factors);
      }
      if (column < s.head_dim)
        store_element(s.dtype, p.out, out * s.head_dim + column, finished_value(value, merged));
      if (column == 0 && p.lse != nullptr) p.lse[out] = log_sum_exp(merged);
    }
  }
}

}  // namespace

void attend_merged(cudaStream_t stream, const AttendMergedParams& params) {
  launch("attend_merged", attend_merged_kernel,
         {params.num_tiles, kMergeThreads, 0, params.sizes.kv_heads}, stream, params);
}

}  // namespace rl::cuda
