#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_fma.h"
#include "ops/cuda/kernels/attention/attention_pairs.h"

namespace rl::cuda {
namespace {

// Shared memory of a block: scaled queries and output gradients of the pairs; a step's keys and
// values, and dS.
template <int kWidth>
struct QueryLayout {
  static constexpr int kRows = kWidth <= 128 ? 16 : 8;
  static constexpr int kKeyStride = kFmaTokens + 1, kValueStride = kWidth + 1;
  static constexpr size_t kRowBytes = sizeof(float) * kRows * kWidth;
  static constexpr size_t kQueries = 0, kGradients = kRowBytes, kKeys = 2 * kRowBytes,
                          kValues = kKeys + sizeof(float) * kWidth * kKeyStride,
                          kSlopes = kValues + sizeof(float) * kFmaTokens * kValueStride,
                          kBytes = kSlopes + sizeof(float) * kRows * kFmaTokens;
};

// Pairs warp, warp + 4, ... of the tile. A lane has one key of a step and every 32nd column.
template <int kWidth>
class WarpQueries {
 public:
  using Layout = QueryLayout<kWidth>;
  static constexpr int kPairs = Layout::kRows / kFmaWarps, kColumns = kWidth / kLanes;

  RL_DEVICE WarpQueries(const TilePairs& pairs, const AttentionGradientInputs& in)
      : pairs_(pairs), s_(pairs.sizes) {
    unrolled<kPairs>([&](int i) {
      lse_[i] = in.lse[pairs.place(index_of(i))];
      delta_[i] = in.delta[pairs.place(index_of(i))];
      unrolled<kColumns>([&](int j) { gradient_[i][j] = 0; });
    });
  }

  RL_DEVICE void add_step(int start) {
    float* slopes = shared_at<float>(Layout::kSlopes);
    unrolled<kPairs>([&](int i) {
      slopes[index_of(i) * kFmaTokens + lane_index()] = slope(i, start + lane_index());
    });
    sync_warp();
    unrolled<kPairs>([&](int i) { add_keys(i, slopes + index_of(i) * kFmaTokens); });
  }

  RL_DEVICE void store(const QueryGradientParams& p) const {
    unrolled<kPairs>([&](int i) {
      if (index_of(i) >= pairs_.count()) return;
      const int64_t place = pairs_.place(index_of(i));
      float* to = p.dqkv + place / s_.heads * gradient_width(s_) + place % s_.heads * s_.head_dim;
      unrolled<kColumns>([&](int j) {
        if (column_of(j) < s_.head_dim)
          put_gradient(to[column_of(j)], gradient_[i][j] * s_.scale, p.in.adds);
      });
    });
  }

 private:
  RL_DEVICE int index_of(int i) const { return warp_index() + i * kFmaWarps; }
  RL_DEVICE int column_of(int j) const { return lane_index() + j * kLanes; }

  // dS of a pair and the lane's key.
  RL_DEVICE float slope(int i, int position) const {
    const int index = index_of(i);
    const float* q = shared_at<float>(Layout::kQueries) + index * kWidth;
    const float* d_out = shared_at<float>(Layout::kGradients) + index * kWidth;
    const float* key = shared_at<float>(Layout::kKeys) + lane_index();
    const float* value = shared_at<float>(Layout::kValues) + lane_index() * Layout::kValueStride;
    float score = 0, dp = 0;
    for (int d = 0; d < s_.width; ++d) {
      score = fma_rn(q[d], key[d * Layout::kKeyStride], score);
      dp = fma_rn(d_out[d], value[d], dp);
    }
    const bool attended = position >= pairs_.first_key(index) && position < pairs_.end_key(index);
    return pair_weight(attended, score, dp, lse_[i], delta_[i]).ds;
  }

  RL_DEVICE void add_keys(int i, const float* slopes) {
    const float* keys = shared_at<float>(Layout::kKeys);
    for (int key = 0; key < kFmaTokens; ++key) {
      unrolled<kColumns>([&](int j) {
        if (column_of(j) < s_.width)
          gradient_[i][j] =
              fma_rn(slopes[key], keys[column_of(j) * Layout::kKeyStride + key], gradient_[i][j]);
      });
    }
  }

  const TilePairs& pairs_;
  const AttentionSizes& s_;
  float lse_[kPairs], delta_[kPairs], gradient_[kPairs][kColumns];
};

template <int kWidth>
RL_KERNEL void RL_BOUNDS(kFmaThreads, 1) query_gradient_fma_kernel(QueryGradientParams p) {
  using Layout = QueryLayout<kWidth>;
  const AttentionGradientInputs& in = p.in;
  const AttentionTile tile = p.tiles[block_x()];
  const int kv_head = static_cast<int>(block_y());
  const TilePairs pairs{in.sizes, in.runs[tile.run], tile.first_pair, tile.end_pair, kv_head};
  const KvSource kv{in.sizes, pool_of_head(in.sizes, in.pool, kv_head), in.blocks + pairs.run.table,
                    pairs.first_key(), pairs.end_key()};
  const TileSteps steps = steps_of_tile<kFmaTokens>(tile, kv);
  WarpQueries<kWidth> warp(pairs, in);
  scale_queries(pairs, 0, Layout::kRows, in.q, shared_at<float>(Layout::kQueries), kWidth);
  widen_gradients(pairs, 0, Layout::kRows, in.d_out, shared_at<float>(Layout::kGradients), kWidth);
  for (int step = steps.first; step < steps.end; ++step) {
    const int start = step * kFmaTokens;
    sync_block();  // no warp reads the previous step any more
    widen_keys(kv, start, shared_at<float>(Layout::kKeys), Layout::kKeyStride);
    widen_values(kv, start, shared_at<float>(Layout::kValues), Layout::kValueStride);
    sync_block();
    warp.add_step(start);
  }
  warp.store(p);
}

template <int kWidth>
void compute_tiles(cudaStream_t stream, const QueryGradientParams& p) {
  launch("query_gradient_fma", query_gradient_fma_kernel<kWidth>,
         {p.num_tiles, kFmaThreads, QueryLayout<kWidth>::kBytes, p.in.sizes.kv_heads}, stream, p);
}

}  // namespace

int query_gradient_pairs_fma(int width) {
  return width <= 128 ? QueryLayout<128>::kRows : QueryLayout<256>::kRows;
}

void query_gradient_fma(cudaStream_t stream, const QueryGradientParams& params) {
  with_kernel_width(params.in.sizes.width,
                    [&](auto width) { compute_tiles<width>(stream, params); });
}

}  // namespace rl::cuda
