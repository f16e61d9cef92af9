#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_fma.h"
#include "ops/cuda/kernels/attention/attention_forward.h"
#include "ops/cuda/kernels/attention/attention_softmax.h"

namespace rl::cuda {
namespace {

constexpr int kPairsOfWarp = kAttendFmaPairs / kFmaWarps;
constexpr int kKeyStride = kFmaTokens + 1;

// Queries, keys and values of a step, and weights.
template <int kWidth>
struct ForwardLayout {
  static constexpr size_t kQueries = 0, kKeys = kQueries + sizeof(float) * kAttendFmaPairs * kWidth,
                          kValues = kKeys + sizeof(float) * kWidth * kKeyStride,
                          kWeights = kValues + sizeof(float) * kFmaTokens * kWidth,
                          kBytes = kWeights + sizeof(float) * kAttendFmaPairs * kFmaTokens;
};

// Pairs warp, warp + 4, ... of the tile. A lane has the score of one key of a step and every 32nd
// value. Sums over keys of a step are added by exchanges at distances 16, 8, 4, 2 and 1.
template <int kWidth>
class WarpPairs {
 public:
  static constexpr int kValues = kWidth / kLanes;

  RL_DEVICE explicit WarpPairs(const TilePairs& pairs) : pairs_(pairs), s_(pairs.sizes) {}

  RL_DEVICE void begin_split() {
    unrolled<kPairsOfWarp>([&](int i) {
      state_[i] = SoftmaxState();
      unrolled<kValues>([&](int j) { values_[i][j] = 0; });
    });
  }

  // One step: scores, weights, and the sum of values.
  RL_DEVICE void add_step(int start) {
    const float* keys = shared_at<float>(ForwardLayout<kWidth>::kKeys) + lane_index();
    float* weights = shared_at<float>(ForwardLayout<kWidth>::kWeights);
    unrolled<kPairsOfWarp>([&](int i) {
      const int index = index_of(i), position = start + lane_index();
      const bool attended = position >= pairs_.first_key(index) && position < pairs_.end_key(index);
      const float* q = shared_at<float>(ForwardLayout<kWidth>::kQueries) + index * kWidth;
      float score = 0;
      for (int d = 0; d < s_.width; ++d) score = fma_rn(q[d], keys[d * kKeyStride], score);
      weights[index * kFmaTokens + lane_index()] = weigh(i, attended ? score : no_score());
    });
    sync_warp();
    unrolled<kPairsOfWarp>([&](int i) { add_values(i, weights + index_of(i) * kFmaTokens); });
  }

  RL_DEVICE void merge_split() {
    unrolled<kPairsOfWarp>([&](int i) {
      const SoftmaxFactors factors = merge_state(merged_state_[i], state_[i]);
      unrolled<kValues>(
          [&](int j) { merged_[i][j] = merge_value(merged_[i][j], values_[i][j], factors); });
    });
  }

  RL_DEVICE void store(const AttendParams& p) const {
    unrolled<kPairsOfWarp>([&](int i) {
      if (index_of(i) >= pairs_.count()) return;
      const int64_t place = pairs_.place(index_of(i));
      if (p.lse != nullptr && lane_index() == 0) p.lse[place] = log_sum_exp(merged_state_[i]);
      unrolled<kValues>([&](int j) {
        const int column = column_of(j);
        if (column < s_.head_dim)
          store_element(s_.dtype, p.out, place * s_.head_dim + column,
                        finished_value(merged_[i][j], merged_state_[i]));
      });
    });
  }

  // Of a call with some of the keys.
  RL_DEVICE void store_call(const AttendParams& p) const {
    unrolled<kPairsOfWarp>([&](int i) {
      if (index_of(i) >= pairs_.count()) return;
      const int64_t place = pairs_.place(index_of(i));
      float lse = p.merges ? p.lse[place] : no_score();
      const SoftmaxFactors factors = merge_call(lse, merged_state_[i]);
      sync_warp();  // every lane has read it
      if (lane_index() == 0) p.lse[place] = lse;
      unrolled<kValues>([&](int j) {
        if (column_of(j) >= s_.head_dim) return;
        float& to = p.calls[place * s_.head_dim + column_of(j)];
        to = merge_value(p.merges ? to : 0.0f, merged_[i][j], factors);
      });
    });
  }

  RL_DEVICE void store_partial(const AttendParams& p, int64_t partial) const {
    unrolled<kPairsOfWarp>([&](int i) {
      if (index_of(i) >= pairs_.count()) return;
      const int64_t place = (partial + index_of(i)) * s_.kv_heads + pairs_.kv_head;
      if (lane_index() == 0) {
        p.partial_states[2 * place] = state_[i].max;
        p.partial_states[2 * place + 1] = state_[i].sum;
      }
      unrolled<kValues>([&](int j) {
        if (column_of(j) < s_.width)
          p.partial_values[place * s_.width + column_of(j)] = values_[i][j];
      });
    });
  }

 private:
  RL_DEVICE int index_of(int i) const { return warp_index() + i * kFmaWarps; }
  RL_DEVICE int column_of(int j) const { return lane_index() + j * kLanes; }

  // The lane's weight of a score; rescales what was summed before.
  RL_DEVICE float weigh(int i, float score) {
    float max = score;
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      max = max_of(max, shuffle_xor(max, distance));
    max = max_of(state_[i].max, max);
    const float keep = weight_of(state_[i].max, max), weight = weight_of(score, max);
    float sum = weight;
    for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
    state_[i] = {max, fma_rn(state_[i].sum, keep, sum)};
    unrolled<kValues>([&](int j) { values_[i][j] *= keep; });
    return weight;
  }

  RL_DEVICE void add_values(int i, const float* weights) {
    const float* values = shared_at<float>(ForwardLayout<kWidth>::kValues);
    for (int key = 0; key < kFmaTokens; ++key) {
      unrolled<kValues>([&](int j) {
        if (column_of(j) < s_.width)
          values_[i][j] = fma_rn(weights[key], values[key * kWidth + column_of(j)], values_[i][j]);
      });
    }
  }

  const TilePairs& pairs_;
  const AttentionSizes& s_;
  SoftmaxState state_[kPairsOfWarp], merged_state_[kPairsOfWarp];
  float values_[kPairsOfWarp][kValues], merged_[kPairsOfWarp][kValues] = {};
};

template <int kWidth>
RL_KERNEL void RL_BOUNDS(kFmaThreads, 1) attend_fma_kernel(AttendParams p) {
  using Layout = ForwardLayout<kWidth>;
  const AttentionTile tile = p.tiles[block_x()];
  const int kv_head = static_cast<int>(block_y());
  const TilePairs pairs{p.sizes, p.runs[tile.run], tile.first_pair, tile.end_pair, kv_head};
  const KvSource kv{p.sizes, pool_of_head(p.sizes, p.pool, kv_head), p.blocks + pairs.run.table,
                    pairs.first_key(), pairs.end_key()};
  const TileSteps steps = steps_of_tile<kFmaTokens>(tile, kv);
  WarpPairs<kWidth> warp(pairs);
  scale_queries(pairs, 0, kAttendFmaPairs, p.q, shared_at<float>(Layout::kQueries), kWidth);
  for (int step = steps.first; step < steps.end; ++step) {
    sync_block();  // no warp reads the previous step any more
    widen_keys(kv, step * kFmaTokens, shared_at<float>(Layout::kKeys), kKeyStride);
    widen_values(kv, step * kFmaTokens, shared_at<float>(Layout::kValues), kWidth);
    sync_block();
    if (steps.begins_split(step)) warp.begin_split();
    warp.add_step(step * kFmaTokens);
    if (steps.ends_split(step)) warp.merge_split();
  }
  if (tile.split >= 0)
    warp.store_partial(p, tile.partial);
  else if (p.calls != nullptr)
    warp.store_call(p);
  else
    warp.store(p);
}

template <int kWidth>
void attend_tiles(cudaStream_t stream, const AttendParams& p) {
  launch("attend_fma", attend_fma_kernel<kWidth>,
         {p.num_tiles, kFmaThreads, ForwardLayout<kWidth>::kBytes, p.sizes.kv_heads}, stream, p);
}

}  // namespace

void attend_fma(cudaStream_t stream, const AttendParams& params) {
  with_kernel_width(params.sizes.width, [&](auto width) { attend_tiles<width>(stream, params); });
}

}  // namespace rl::cuda
