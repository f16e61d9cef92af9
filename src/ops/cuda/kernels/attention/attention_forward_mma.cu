#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_forward.h"
#include "ops/cuda/kernels/attention/attention_mma.h"
#include "ops/cuda/kernels/attention/attention_softmax.h"

namespace rl::cuda {
namespace {

// Shared memory of a block: queries, a step's keys and values, and merged values of earlier splits,
// which each thread reads and writes for itself.
template <int kWidth>
struct ForwardLayout {
  using Tiles = MmaTiles<kWidth>;
  static constexpr size_t kKeys = 0, kValues = Tiles::kKeyBytes,
                          kQueries = kValues + Tiles::kValueBytes;
  static size_t merged(int warps) {
    return kQueries + size_t{2} * warps * kMmaPairs * Tiles::kRowStride;
  }
  static size_t bytes(int warps) {
    return merged(warps) + sizeof(float) * warps * kMmaPairs * kWidth;
  }
};

// The 16 pairs of one warp. Lane l has columns 2 (l % 4) and the next of rows l / 4 (index 0 of
// what has two) and l / 4 + 8 (index 1) of every product.
template <int kWidth>
class WarpPairs {
 public:
  using Tiles = MmaTiles<kWidth>;
  static constexpr int kScoreTiles = Tiles::kTokens / 8, kValueTiles = kWidth / 8;

  RL_DEVICE WarpPairs(const TilePairs& pairs, const bf16* queries, float* merged)
      : pairs_(pairs),
        s_(pairs.sizes),
        queries_(queries),
        merged_(merged + warp_index() * kMmaPairs * kWidth + lane_index()) {
    unrolled<2>([&](int r) {
      index_[r] = warp_index() * kMmaPairs + lane_index() / 4 + 8 * r;
      first_key_[r] = pairs.first_key(index_[r]);
      end_key_[r] = pairs.end_key(index_[r]);
    });
  }

  RL_DEVICE void begin_split() {
    unrolled<2>([&](int r) { state_[r] = SoftmaxState(); });
    unrolled<kValueTiles>([&](int n) { clear(values_[n]); });
  }

  RL_DEVICE void add_scores(const bf16* keys) {
    unrolled<kScoreTiles>([&](int n) { clear(scores_[n]); });
    unrolled<kWidth / 16>([&](int k) {
      if (16 * k >= s_.width) return;
      uint32_t a[4];
      load_a(a, queries_, Tiles::kRowStride, warp_index() * kMmaPairs, 16 * k);
      unrolled<kScoreTiles / 2>([&](int n) {
        uint32_t b[4];
        load_b(b, keys, Tiles::kKeyStride, 16 * k, 16 * n);
        multiply_16_columns(scores_[2 * n], scores_[2 * n + 1], a, b);
      });
    });
  }

  // Turns the scores of the step from `start` on into weights, and rescales what was summed before.
  RL_DEVICE void weigh(int start) {
    float step_max[2] = {no_score(), no_score()};
    unrolled<kScoreTiles>([&](int n) {
      unrolled<4>([&](int e) {
        const int r = e / 2, position = start + 8 * n + lane_index() % 4 * 2 + e % 2;
        const bool attended = position >= first_key_[r] && position < end_key_[r];
        scores_[n][e] = attended ? scores_[n][e] * s_.scale : no_score();
        step_max[r] = max_of(step_max[r], scores_[n][e]);
      });
    });
    float keep[2];
    unrolled<2>([&](int r) {
      for (int distance = 1; distance < 4; distance *= 2)
        step_max[r] = max_of(step_max[r], shuffle_xor(step_max[r], distance));
      const float max = max_of(state_[r].max, step_max[r]);
      keep[r] = weight_of(state_[r].max, max);
      state_[r].max = max;
      state_[r].sum *= keep[r];
    });
    unrolled<kScoreTiles>([&](int n) {
      unrolled<4>([&](int e) {
        scores_[n][e] = weight_of(scores_[n][e], state_[e / 2].max);
        state_[e / 2].sum += scores_[n][e];
      });
    });
    unrolled<kValueTiles>(
        [&](int n) { unrolled<4>([&](int e) { values_[n][e] *= keep[e / 2]; }); });
  }

  RL_DEVICE void add_values(const bf16* values) {
    unrolled<kScoreTiles / 2>([&](int k) {
      uint32_t a[4];
      round_as_a(a, scores_[2 * k], scores_[2 * k + 1]);
      unrolled<kValueTiles / 2>([&](int n) {
        if (16 * n >= s_.width) return;
        uint32_t b[4];
        load_b(b, values, Tiles::kRowStride, 16 * k, 16 * n);
        multiply_16_columns(values_[2 * n], values_[2 * n + 1], a, b);
      });
    });
  }

  // Adds the sums of the four lanes that share a row.
  RL_DEVICE void end_split() {
    unrolled<2>([&](int r) {
      for (int distance = 1; distance < 4; distance *= 2)
        state_[r].sum += shuffle_xor(state_[r].sum, distance);
    });
  }

  // Merges the split into those before it. The merged values lie in shared memory, but for the last
  // split's, which end up in values_.
  RL_DEVICE void merge_split(bool first, bool last) {
    SoftmaxFactors factors[2];
    unrolled<2>([&](int r) {
      factors[r] = merge_state(merged_state_[r], state_[r]);
      state_[r] = merged_state_[r];
    });
    unrolled<kValueTiles>([&](int n) {
      unrolled<4>([&](int e) {
        float* at = merged_ + (4 * n + e) * kLanes;
        const float value = first ? values_[n][e] : merge_value(*at, values_[n][e], factors[e / 2]);
        values_[n][e] = value;
        if (!last) *at = value;
      });
    });
  }

  RL_DEVICE void store(const AttendParams& p) const {
    unrolled<2>([&](int r) {
      if (index_[r] >= pairs_.count()) return;
      const int64_t place = pairs_.place(index_[r]);
      if (p.lse != nullptr && lane_index() % 4 == 0) p.lse[place] = log_sum_exp(state_[r]);
      each_column(r, [&](int column, float value) {
        if (column < s_.head_dim)
          static_cast<bf16*>(p.out)[place * s_.head_dim + column] =
              to_bf16(finished_value(value, state_[r]));
      });
    });
  }

  // Of a call with some of the keys.
  RL_DEVICE void store_call(const AttendParams& p) const {
    float lse[2];
    SoftmaxFactors factors[2];
    unrolled<2>([&](int r) {
      const bool reads = p.merges && index_[r] < pairs_.count();
      lse[r] = reads ? p.lse[pairs_.place(index_[r])] : no_score();
      factors[r] = merge_call(lse[r], state_[r]);
    });
    sync_warp();  // all lanes of a row have read it
    unrolled<2>([&](int r) {
      if (index_[r] >= pairs_.count()) return;
      const int64_t place = pairs_.place(index_[r]);
      if (lane_index() % 4 == 0) p.lse[place] = lse[r];
      each_column(r, [&](int column, float value) {
        if (column >= s_.head_dim) return;
        float& to = p.calls[place * s_.head_dim + column];
        to = merge_value(p.merges ? to : 0.0f, value, factors[r]);
      });
    });
  }

  RL_DEVICE void store_partial(const AttendParams& p, int64_t partial) const {
    unrolled<2>([&](int r) {
      if (index_[r] >= pairs_.count()) return;
      const int64_t place = (partial + index_[r]) * s_.kv_heads + pairs_.kv_head;
      if (lane_index() % 4 == 0) {
        p.partial_states[2 * place] = state_[r].max;
        p.partial_states[2 * place + 1] = state_[r].sum;
      }
      each_column(
          r, [&](int column, float value) { p.partial_values[place * s_.width + column] = value; });
    });
  }

 private:
  static RL_DEVICE void clear(float (&d)[4]) {
    unrolled<4>([&](int e) { d[e] = 0; });
  }
  template <typename Each>
  RL_DEVICE void each_column(int r, const Each& each) const {
    unrolled<kValueTiles>([&](int n) {
      const int column = 8 * n + lane_index() % 4 * 2;
      if (column >= s_.width) return;
      each(column, values_[n][2 * r]);
      each(column + 1, values_[n][2 * r + 1]);
    });
  }

  const TilePairs& pairs_;
  const AttentionSizes& s_;
  const bf16* queries_;
  float* merged_;
  int index_[2], first_key_[2], end_key_[2];
  SoftmaxState state_[2], merged_state_[2];  // sums of state_ are this lane's part within a split
  float scores_[kScoreTiles][4], values_[kValueTiles][4];
};

// A step's values arrive while its scores are computed, the next step's keys while its values are
// summed.
template <int kWidth>
RL_KERNEL void RL_BOUNDS(MmaTiles<kWidth>::kWarps* kLanes, 1) attend_mma_kernel(AttendParams p) {
  using Tiles = MmaTiles<kWidth>;
  using Layout = ForwardLayout<kWidth>;
  const AttentionTile tile = p.tiles[block_x()];
  const int kv_head = static_cast<int>(block_y());
  const TilePairs pairs{p.sizes, p.runs[tile.run], tile.first_pair, tile.end_pair, kv_head};
  const KvSource kv{p.sizes, pool_of_head(p.sizes, p.pool, kv_head), p.blocks + pairs.run.table,
                    pairs.first_key(), pairs.end_key()};
  const TileSteps steps = steps_of_tile<Tiles::kTokens>(tile, kv);
  bf16* const keys = shared_at<bf16>(Layout::kKeys);
  bf16* const values = shared_at<bf16>(Layout::kValues);
  bf16* const queries = shared_at<bf16>(Layout::kQueries);
  const int rows = block_warps() * kMmaPairs;
  float* const merged = shared_at<float>(Layout::kQueries + size_t{2} * rows * Tiles::kRowStride);
  WarpPairs<kWidth> warp(pairs, queries, merged);
  load_queries<kWidth>(pairs, 0, rows, p.q, queries);
  load_keys<Tiles::kTokens>(kv, steps.first * Tiles::kTokens, keys);
  commit_copies();
  bool first_split = true;
  for (int step = steps.first; step < steps.end; ++step) {
    const int start = step * Tiles::kTokens;
    wait_copies<0>();
    sync_block();  // keys are there, and no warp reads the values before these
    load_values<kWidth, Tiles::kTokens>(kv, start, values);
    commit_copies();
    if (steps.begins_split(step)) warp.begin_split();
    warp.add_scores(keys);
    sync_block();  // no warp reads these keys any more
    if (step + 1 < steps.end) load_keys<Tiles::kTokens>(kv, start + Tiles::kTokens, keys);
    commit_copies();
    warp.weigh(start);
    wait_copies<1>();
    sync_block();  // values are there
    warp.add_values(values);
    if (!steps.ends_split(step)) continue;
    warp.end_split();
    if (tile.split < 0) warp.merge_split(first_split, step + 1 == steps.end);
    first_split = false;
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
  const int warps = (p.tile_pairs + kMmaPairs - 1) / kMmaPairs;
  launch("attend_mma", attend_mma_kernel<kWidth>,
         {p.num_tiles, warps * kLanes, ForwardLayout<kWidth>::bytes(warps), p.sizes.kv_heads},
         stream, p);
}

}  // namespace

int attend_mma_pairs(int width) {
  return kMmaPairs * (width <= 128 ? MmaTiles<128>::kWarps : MmaTiles<256>::kWarps);
}

void attend_mma(cudaStream_t stream, const AttendParams& params) {
  with_kernel_width(params.sizes.width, [&](auto width) { attend_tiles<width>(stream, params); });
}

}  // namespace rl::cuda
