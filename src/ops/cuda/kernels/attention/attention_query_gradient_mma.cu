#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_mma.h"
#include "ops/cuda/kernels/attention/attention_pairs.h"

namespace rl::cuda {
namespace {

// Shared memory of a block: a step's keys and values; queries and output gradients of the pairs.
template <int kWidth>
struct QueryLayout {
  using Tiles = MmaTiles<kWidth>;
  static constexpr int kRows = Tiles::kWarps * kMmaPairs;
  static constexpr size_t kRowBytes = size_t{2} * kRows * Tiles::kRowStride;
  static constexpr size_t kKeys = 0, kValues = Tiles::kKeyBytes,
                          kQueries = kValues + Tiles::kValueBytes, kHigh = kQueries + kRowBytes,
                          kLow = kHigh + kRowBytes, kBytes = kLow + kRowBytes;
};

// The 16 pairs of one warp; lanes have rows and columns as in the forward.
template <int kWidth>
class WarpQueries {
 public:
  using Tiles = MmaTiles<kWidth>;
  using Layout = QueryLayout<kWidth>;
  static constexpr int kScoreTiles = Tiles::kTokens / 8, kGradientTiles = kWidth / 8;

  RL_DEVICE WarpQueries(const TilePairs& pairs, const AttentionGradientInputs& in)
      : pairs_(pairs), s_(pairs.sizes) {
    unrolled<2>([&](int r) {
      index_[r] = warp_index() * kMmaPairs + lane_index() / 4 + 8 * r;
      first_key_[r] = pairs.first_key(index_[r]);
      end_key_[r] = pairs.end_key(index_[r]);
      lse_[r] = in.lse[pairs.place(index_[r])];
      delta_[r] = in.delta[pairs.place(index_[r])];
    });
    unrolled<kGradientTiles>([&](int n) { clear(gradient_[n]); });
  }

  // Scores of the step, and d_out v.
  RL_DEVICE void multiply() {
    const bf16 *keys = shared_at<bf16>(Layout::kKeys), *values = shared_at<bf16>(Layout::kValues);
    const int row = warp_index() * kMmaPairs;
    unrolled<kScoreTiles>([&](int n) {
      clear(scores_[n]);
      clear(slopes_[n]);
    });
    for (int d = 0; d < s_.width; d += 16) {
      uint32_t q[4], high[4], low[4];
      load_a(q, shared_at<bf16>(Layout::kQueries), Tiles::kRowStride, row, d);
      load_a(high, shared_at<bf16>(Layout::kHigh), Tiles::kRowStride, row, d);
      load_a(low, shared_at<bf16>(Layout::kLow), Tiles::kRowStride, row, d);
      unrolled<kScoreTiles / 2>([&](int n) {
        uint32_t b[4];
        load_b(b, keys, Tiles::kKeyStride, d, 16 * n);
        multiply_16_columns(scores_[2 * n], scores_[2 * n + 1], q, b);
        load_b_by_columns(b, values, Tiles::kRowStride, d, 16 * n);
        multiply_16_columns(slopes_[2 * n], slopes_[2 * n + 1], high, b);
        multiply_16_columns(slopes_[2 * n], slopes_[2 * n + 1], low, b);
      });
    }
  }

  // Replaces slopes by dS.
  RL_DEVICE void weigh(int start) {
    unrolled<kScoreTiles>([&](int n) {
      unrolled<4>([&](int e) {
        const int r = e / 2, position = start + 8 * n + lane_index() % 4 * 2 + e % 2;
        const bool attended = position >= first_key_[r] && position < end_key_[r];
        slopes_[n][e] =
            pair_weight(attended, scores_[n][e] * s_.scale, slopes_[n][e], lse_[r], delta_[r]).ds;
      });
    });
  }

  RL_DEVICE void add_keys() {
    const bf16* keys = shared_at<bf16>(Layout::kKeys);
    unrolled<kScoreTiles / 2>([&](int k) {
      uint32_t a[4];
      round_as_a(a, slopes_[2 * k], slopes_[2 * k + 1]);
      unrolled<kGradientTiles / 2>([&](int n) {
        if (16 * n >= s_.width) return;
        uint32_t b[4];
        load_b_by_columns(b, keys, Tiles::kKeyStride, 16 * k, 16 * n);
        multiply_16_columns(gradient_[2 * n], gradient_[2 * n + 1], a, b);
      });
    });
  }

  RL_DEVICE void store(const QueryGradientParams& p) const {
    unrolled<2>([&](int r) {
      if (index_[r] >= pairs_.count()) return;
      const int64_t place = pairs_.place(index_[r]);
      float* to = p.dqkv + place / s_.heads * gradient_width(s_) + place % s_.heads * s_.head_dim;
      unrolled<kGradientTiles>([&](int n) {
        unrolled<2>([&](int c) {
          const int column = 8 * n + lane_index() % 4 * 2 + c;
          if (column < s_.head_dim)
            put_gradient(to[column], gradient_[n][2 * r + c] * s_.scale, p.in.adds);
        });
      });
    });
  }

 private:
  static RL_DEVICE void clear(float (&d)[4]) {
    unrolled<4>([&](int e) { d[e] = 0; });
  }

  const TilePairs& pairs_;
  const AttentionSizes& s_;
  int index_[2], first_key_[2], end_key_[2];
  float lse_[2], delta_[2];
  float scores_[kScoreTiles][4], slopes_[kScoreTiles][4], gradient_[kGradientTiles][4];
};

template <int kWidth>
RL_KERNEL void RL_BOUNDS(MmaTiles<kWidth>::kWarps* kLanes, 1)
    query_gradient_mma_kernel(QueryGradientParams p) {
  using Tiles = MmaTiles<kWidth>;
  using Layout = QueryLayout<kWidth>;
  const AttentionGradientInputs& in = p.in;
  const AttentionTile tile = p.tiles[block_x()];
  const int kv_head = static_cast<int>(block_y());
  const TilePairs pairs{in.sizes, in.runs[tile.run], tile.first_pair, tile.end_pair, kv_head};
  const KvSource kv{in.sizes, pool_of_head(in.sizes, in.pool, kv_head), in.blocks + pairs.run.table,
                    pairs.first_key(), pairs.end_key()};
  const TileSteps steps = steps_of_tile<Tiles::kTokens>(tile, kv);
  WarpQueries<kWidth> warp(pairs, in);
  load_queries<kWidth>(pairs, 0, Layout::kRows, in.q, shared_at<bf16>(Layout::kQueries));
  split_gradients<kWidth>(pairs, 0, Layout::kRows, in.d_out, shared_at<bf16>(Layout::kHigh),
                          shared_at<bf16>(Layout::kLow));
  for (int step = steps.first; step < steps.end; ++step) {
    const int start = step * Tiles::kTokens;
    load_keys<Tiles::kTokens>(kv, start, shared_at<bf16>(Layout::kKeys));
    load_values<kWidth, Tiles::kTokens>(kv, start, shared_at<bf16>(Layout::kValues));
    commit_copies();
    wait_copies<0>();
    sync_block();
    warp.multiply();
    warp.weigh(start);
    warp.add_keys();
    sync_block();  // no warp reads this step any more
  }
  warp.store(p);
}

template <int kWidth>
void compute_tiles(cudaStream_t stream, const QueryGradientParams& p) {
  launch("query_gradient_mma", query_gradient_mma_kernel<kWidth>,
         {p.num_tiles, MmaTiles<kWidth>::kWarps * kLanes, QueryLayout<kWidth>::kBytes,
          p.in.sizes.kv_heads},
         stream, p);
}

}  // namespace

int query_gradient_pairs_mma(int width) {
  return width <= 128 ? QueryLayout<128>::kRows : QueryLayout<256>::kRows;
}

void query_gradient_mma(cudaStream_t stream, const QueryGradientParams& params) {
  with_kernel_width(params.in.sizes.width,
                    [&](auto width) { compute_tiles<width>(stream, params); });
}

}  // namespace rl::cuda
