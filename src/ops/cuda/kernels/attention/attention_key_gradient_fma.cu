#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_fma.h"
#include "ops/cuda/kernels/attention/attention_pairs.h"

namespace rl::cuda {
namespace {

constexpr int kStepPairs = kLanes;

// Shared memory of a block: keys and values of the tile by rows; scaled queries and output
// gradients of a step's pairs; P and dS.
template <int kWidth>
struct KeyLayout {
  static constexpr int kKeyRows = kWidth <= 128 ? 16 : 8;
  static constexpr int kPairStride = kWidth + 1;
  static constexpr size_t kKeyBytes = sizeof(float) * kKeyRows * kWidth,
                          kPairBytes = sizeof(float) * kStepPairs * kPairStride,
                          kWeightBytes = sizeof(float) * kKeyRows * kStepPairs;
  static constexpr size_t kKeys = 0, kValues = kKeyBytes, kQueries = 2 * kKeyBytes,
                          kGradients = kQueries + kPairBytes, kWeights = kGradients + kPairBytes,
                          kSlopes = kWeights + kWeightBytes, kBytes = kSlopes + kWeightBytes;
};

// Keys warp, warp + 4, ... of the tile. A lane has one pair of a step and every 32nd column.
template <int kWidth>
class WarpKeys {
 public:
  using Layout = KeyLayout<kWidth>;
  static constexpr int kKeysOfWarp = Layout::kKeyRows / kFmaWarps, kColumns = kWidth / kLanes;

  RL_DEVICE WarpKeys(const AttentionSizes& sizes, const KeyTile& tile, int start)
      : s_(sizes), tile_(tile), start_(start) {
    unrolled<kKeysOfWarp>(
        [&](int i) { unrolled<kColumns>([&](int j) { dk_[i][j] = dv_[i][j] = 0; }); });
  }

  // Pairs from `index` on.
  RL_DEVICE void add_step(const AttentionGradientInputs& in, const TilePairs& pairs, int index) {
    float *weights = shared_at<float>(Layout::kWeights),
          *slopes = shared_at<float>(Layout::kSlopes);
    const int64_t place = pairs.place(index + lane_index());
    const float lse = in.lse[place], delta = in.delta[place];
    const int last = pairs.position(index + lane_index());
    const bool exists = index + lane_index() < pairs.count();
    unrolled<kKeysOfWarp>([&](int i) {
      const int position = start_ + row_of(i), at = row_of(i) * kStepPairs + lane_index();
      const bool attended = exists && position >= first_key_of(s_, last) && position <= last;
      const Sums sums = multiply(i);
      const PairWeight w = pair_weight(attended, sums.score, sums.dp, lse, delta);
      weights[at] = w.p;
      slopes[at] = w.ds;
    });
    sync_warp();
    unrolled<kKeysOfWarp>([&](int i) {
      add_pairs(i, weights + row_of(i) * kStepPairs, slopes + row_of(i) * kStepPairs);
    });
  }

  RL_DEVICE void store(int kv_head, bool adds) const {
    unrolled<kKeysOfWarp>([&](int i) {
      const int position = start_ + row_of(i);
      if (position < tile_.first_key || position >= tile_.end_key) return;
      float* dk =
          tile_.to + (position - tile_.first_key) * tile_.stride + int64_t{kv_head} * s_.head_dim;
      float* dv = dk + int64_t{s_.kv_heads} * s_.head_dim;
      unrolled<kColumns>([&](int j) {
        if (column_of(j) >= s_.head_dim) return;
        put_gradient(dk[column_of(j)], dk_[i][j], adds);
        put_gradient(dv[column_of(j)], dv_[i][j], adds);
      });
    });
  }

 private:
  struct Sums {
    float score, dp;
  };
  RL_DEVICE int row_of(int i) const { return warp_index() + i * kFmaWarps; }
  RL_DEVICE int column_of(int j) const { return lane_index() + j * kLanes; }

  // Of the lane's pair and a key.
  RL_DEVICE Sums multiply(int i) const {
    const float* key = shared_at<float>(Layout::kKeys) + row_of(i) * kWidth;
    const float* value = shared_at<float>(Layout::kValues) + row_of(i) * kWidth;
    const float* q = shared_at<float>(Layout::kQueries) + lane_index() * Layout::kPairStride;
    const float* d_out = shared_at<float>(Layout::kGradients) + lane_index() * Layout::kPairStride;
    Sums sums{0, 0};
    for (int d = 0; d < s_.width; ++d) {
      sums.score = fma_rn(q[d], key[d], sums.score);
      sums.dp = fma_rn(d_out[d], value[d], sums.dp);
    }
    return sums;
  }

  RL_DEVICE void add_pairs(int i, const float* weights, const float* slopes) {
    const float* q = shared_at<float>(Layout::kQueries);
    const float* d_out = shared_at<float>(Layout::kGradients);
    for (int pair = 0; pair < kStepPairs; ++pair) {
      unrolled<kColumns>([&](int j) {
        if (column_of(j) >= s_.width) return;
        const int at = pair * Layout::kPairStride + column_of(j);
        dv_[i][j] = fma_rn(weights[pair], d_out[at], dv_[i][j]);
        dk_[i][j] = fma_rn(slopes[pair], q[at], dk_[i][j]);
      });
    }
  }

  const AttentionSizes& s_;
  const KeyTile& tile_;
  const int start_;
  float dk_[kKeysOfWarp][kColumns], dv_[kKeysOfWarp][kColumns];
};

// Keys and values of the tile, (keys, W) each.
template <int kWidth>
RL_DEVICE void widen_key_tile(const KvSource& kv, int start) {
  float* keys = shared_at<float>(KeyLayout<kWidth>::kKeys);
  float* values = shared_at<float>(KeyLayout<kWidth>::kValues);
  const Dtype type = kv.sizes.kv_dtype;
  for (int row = warp_index(); row < KeyLayout<kWidth>::kKeyRows; row += kFmaWarps) {
    const bool exists = kv.holds(start + row);
    for (int d = lane_index(); d < kv.sizes.width; d += kLanes) {
      keys[row * kWidth + d] = exists ? load_element(type, kv.pool, kv.key(start + row, d)) : 0.0f;
      values[row * kWidth + d] =
          exists ? load_element(type, kv.pool, kv.value(start + row, d)) : 0.0f;
    }
  }
}

template <int kWidth>
RL_KERNEL void RL_BOUNDS(kFmaThreads, 1) key_gradient_fma_kernel(KeyGradientParams p) {
  using Layout = KeyLayout<kWidth>;
  const AttentionGradientInputs& in = p.in;
  const AttentionSizes& s = in.sizes;
  const KeyTile tile = p.tiles[block_x()];
  const int kv_head = static_cast<int>(block_y());
  const int start = tile.first_key / Layout::kKeyRows * Layout::kKeyRows;
  const KvSource kv{s, pool_of_head(s, in.pool, kv_head), in.blocks + in.runs[tile.first_run].table,
                    tile.first_key, tile.end_key};
  widen_key_tile<kWidth>(kv, start);
  WarpKeys<kWidth> warp(s, tile, start);
  for (int run = tile.first_run; run < tile.end_run; ++run) {
    const PairSpan span = pairs_of_keys(s, in.runs[run], tile);
    const TilePairs pairs{s, in.runs[run], span.first, span.end, kv_head};
    for (int index = 0; index < pairs.count(); index += kStepPairs) {
      sync_block();  // no warp reads the previous step any more
      scale_queries(pairs, index, kStepPairs, in.q, shared_at<float>(Layout::kQueries),
                    Layout::kPairStride);
      widen_gradients(pairs, index, kStepPairs, in.d_out, shared_at<float>(Layout::kGradients),
                      Layout::kPairStride);
      sync_block();
      warp.add_step(in, pairs, index);
    }
  }
  warp.store(kv_head, in.adds);
}

template <int kWidth>
void compute_tiles(cudaStream_t stream, const KeyGradientParams& p) {
  launch("key_gradient_fma", key_gradient_fma_kernel<kWidth>,
         {p.num_tiles, kFmaThreads, KeyLayout<kWidth>::kBytes, p.in.sizes.kv_heads}, stream, p);
}

}  // namespace

int key_gradient_keys_fma(int width) {
  return width <= 128 ? KeyLayout<128>::kKeyRows : KeyLayout<256>::kKeyRows;
}

void key_gradient_fma(cudaStream_t stream, const KeyGradientParams& params) {
  with_kernel_width(params.in.sizes.width,
                    [&](auto width) { compute_tiles<width>(stream, params); });
}

}  // namespace rl::cuda
