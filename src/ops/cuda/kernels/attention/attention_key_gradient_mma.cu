#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/attention/attention_mma.h"
#include "ops/cuda/kernels/attention/attention_pairs.h"

namespace rl::cuda {
namespace {

constexpr int kStepPairs = 32;

// Shared memory of a block: keys and values of the tile; queries, output gradients, lse and delta
// of a step's pairs.
template <int kWidth>
struct KeyLayout {
  using Tiles = MmaTiles<kWidth>;
  static constexpr size_t kRowBytes = size_t{2} * kStepPairs * Tiles::kRowStride;
  static constexpr size_t kKeys = 0, kValues = Tiles::kKeyBytes,
                          kQueries = kValues + Tiles::kValueBytes, kHigh = kQueries + kRowBytes,
                          kLow = kHigh + kRowBytes, kLse = kLow + kRowBytes,
                          kDelta = kLse + sizeof(float) * kStepPairs,
                          kBytes = kDelta + sizeof(float) * kStepPairs;
};

// The 16 keys of one warp, and up to 128 columns of their gradients: head sizes above that are
// divided between blocks of the grid.
template <int kWidth>
class WarpKeys {
 public:
  using Tiles = MmaTiles<kWidth>;
  using Layout = KeyLayout<kWidth>;
  static constexpr int kColumns = kWidth < 128 ? kWidth : 128;
  static constexpr int kPairTiles = kStepPairs / 8, kGradientTiles = kColumns / 8;

  RL_DEVICE WarpKeys(const AttentionSizes& sizes, const KeyTile& tile, int start, int first_column)
      : s_(sizes), tile_(tile), first_column_(first_column) {
    unrolled<2>(
        [&](int r) { position_[r] = start + warp_index() * kMmaPairs + lane_index() / 4 + 8 * r; });
    unrolled<kGradientTiles>([&](int n) {
      clear(dk_[n]);
      clear(dv_[n]);
    });
  }

  // Scores of the step's pairs, and d_out v, keys by rows.
  RL_DEVICE void multiply() {
    const bf16 *keys = shared_at<bf16>(Layout::kKeys), *values = shared_at<bf16>(Layout::kValues);
    const int row = warp_index() * kMmaPairs;
    unrolled<kPairTiles>([&](int n) {
      clear(scores_[n]);
      clear(slopes_[n]);
    });
    for (int d = 0; d < s_.width; d += 16) {
      uint32_t k[4], v[4];
      load_a_transposed(k, keys, Tiles::kKeyStride, row, d);
      load_a(v, values, Tiles::kRowStride, row, d);
      unrolled<kPairTiles / 2>([&](int n) {
        uint32_t b[4];
        load_b_by_columns(b, shared_at<bf16>(Layout::kQueries), Tiles::kRowStride, d, 16 * n);
        multiply_16_columns(scores_[2 * n], scores_[2 * n + 1], k, b);
        load_b_by_columns(b, shared_at<bf16>(Layout::kHigh), Tiles::kRowStride, d, 16 * n);
        multiply_16_columns(slopes_[2 * n], slopes_[2 * n + 1], v, b);
        load_b_by_columns(b, shared_at<bf16>(Layout::kLow), Tiles::kRowStride, d, 16 * n);
        multiply_16_columns(slopes_[2 * n], slopes_[2 * n + 1], v, b);
      });
    }
  }

  // Replaces scores by P and slopes by dS.
  RL_DEVICE void weigh(const TilePairs& pairs, int index) {
    const float *lse = shared_at<float>(Layout::kLse), *delta = shared_at<float>(Layout::kDelta);
    unrolled<kPairTiles>([&](int n) {
      unrolled<2>([&](int c) {
        const int column = 8 * n + lane_index() % 4 * 2 + c;
        const int row = pairs.position(index + column), first = first_key_of(s_, row);
        const bool exists = index + column < pairs.count();
        unrolled<2>([&](int r) {
          const int e = 2 * r + c;
          const bool attended = exists && position_[r] >= first && position_[r] <= row;
          const PairWeight w = pair_weight(attended, scores_[n][e] * s_.scale, slopes_[n][e],
                                           lse[column], delta[column]);
          scores_[n][e] = w.p;
          slopes_[n][e] = w.ds;
        });
      });
    });
  }

  RL_DEVICE void add_pairs() {
    unrolled<kPairTiles / 2>([&](int k) {
      uint32_t p[4], ds[4];
      round_as_a(p, scores_[2 * k], scores_[2 * k + 1]);
      round_as_a(ds, slopes_[2 * k], slopes_[2 * k + 1]);
      unrolled<kGradientTiles / 2>([&](int n) {
        const int column = first_column_ + 16 * n;
        if (column >= s_.width) return;
        uint32_t b[4];
        load_b(b, shared_at<bf16>(Layout::kHigh), Tiles::kRowStride, 16 * k, column);
        multiply_16_columns(dv_[2 * n], dv_[2 * n + 1], p, b);
        load_b(b, shared_at<bf16>(Layout::kLow), Tiles::kRowStride, 16 * k, column);
        multiply_16_columns(dv_[2 * n], dv_[2 * n + 1], p, b);
        load_b(b, shared_at<bf16>(Layout::kQueries), Tiles::kRowStride, 16 * k, column);
        multiply_16_columns(dk_[2 * n], dk_[2 * n + 1], ds, b);
      });
    });
  }

  RL_DEVICE void store(int kv_head, bool adds) const {
    unrolled<2>([&](int r) {
      if (position_[r] < tile_.first_key || position_[r] >= tile_.end_key) return;
      float* dk = tile_.to + (position_[r] - tile_.first_key) * tile_.stride +
                  int64_t{kv_head} * s_.head_dim;
      float* dv = dk + int64_t{s_.kv_heads} * s_.head_dim;
      unrolled<kGradientTiles>([&](int n) {
        unrolled<2>([&](int c) {
          const int column = first_column_ + 8 * n + lane_index() % 4 * 2 + c;
          if (column >= s_.head_dim) return;
          put_gradient(dk[column], dk_[n][2 * r + c] * s_.scale, adds);
          put_gradient(dv[column], dv_[n][2 * r + c], adds);
        });
      });
    });
  }

 private:
  static RL_DEVICE void clear(float (&d)[4]) {
    unrolled<4>([&](int e) { d[e] = 0; });
  }

  const AttentionSizes& s_;
  const KeyTile& tile_;
  const int first_column_;
  int position_[2];
  float scores_[kPairTiles][4], slopes_[kPairTiles][4];
  float dk_[kGradientTiles][4], dv_[kGradientTiles][4];
};

// Loads a step's pairs, from `index` of `pairs` on; starts copies.
template <int kWidth>
RL_DEVICE void load_step(const AttentionGradientInputs& in, const TilePairs& pairs, int index) {
  using Layout = KeyLayout<kWidth>;
  load_queries<kWidth>(pairs, index, kStepPairs, in.q, shared_at<bf16>(Layout::kQueries));
  split_gradients<kWidth>(pairs, index, kStepPairs, in.d_out, shared_at<bf16>(Layout::kHigh),
                          shared_at<bf16>(Layout::kLow));
  if (thread_index() >= kStepPairs) return;
  const int64_t place = pairs.place(index + thread_index());
  shared_at<float>(Layout::kLse)[thread_index()] = in.lse[place];
  shared_at<float>(Layout::kDelta)[thread_index()] = in.delta[place];
}

template <int kWidth>
RL_KERNEL void RL_BOUNDS(MmaTiles<kWidth>::kWarps* kLanes, 1)
    key_gradient_mma_kernel(KeyGradientParams p) {
  using Tiles = MmaTiles<kWidth>;
  using Layout = KeyLayout<kWidth>;
  const AttentionGradientInputs& in = p.in;
  const AttentionSizes& s = in.sizes;
  const KeyTile tile = p.tiles[block_x()];
  const int kv_head = static_cast<int>(block_y());
  const int start = tile.first_key / Tiles::kTokens * Tiles::kTokens;
  const KvSource kv{s, pool_of_head(s, in.pool, kv_head), in.blocks + in.runs[tile.first_run].table,
                    tile.first_key, tile.end_key};
  load_keys<Tiles::kTokens>(kv, start, shared_at<bf16>(Layout::kKeys));
  load_values<kWidth, Tiles::kTokens>(kv, start, shared_at<bf16>(Layout::kValues));
  WarpKeys<kWidth> warp(s, tile, start, static_cast<int>(block_z()) * WarpKeys<kWidth>::kColumns);
  for (int run = tile.first_run; run < tile.end_run; ++run) {
    const PairSpan span = pairs_of_keys(s, in.runs[run], tile);
    const TilePairs pairs{s, in.runs[run], span.first, span.end, kv_head};
    for (int index = 0; index < pairs.count(); index += kStepPairs) {
      load_step<kWidth>(in, pairs, index);
      commit_copies();
      wait_copies<0>();
      sync_block();
      warp.multiply();
      warp.weigh(pairs, index);
      warp.add_pairs();
      sync_block();  // no warp reads this step any more
    }
  }
  warp.store(kv_head, in.adds);
}

template <int kWidth>
void compute_tiles(cudaStream_t stream, const KeyGradientParams& p) {
  launch("key_gradient_mma", key_gradient_mma_kernel<kWidth>,
         {p.num_tiles, MmaTiles<kWidth>::kWarps * kLanes, KeyLayout<kWidth>::kBytes,
          p.in.sizes.kv_heads, kWidth / WarpKeys<kWidth>::kColumns},
         stream, p);
}

}  // namespace

int key_gradient_keys_mma(int width) {
  return width <= 128 ? MmaTiles<128>::kTokens : MmaTiles<256>::kTokens;
}

void key_gradient_mma(cudaStream_t stream, const KeyGradientParams& params) {
  with_kernel_width(params.in.sizes.width,
                    [&](auto width) { compute_tiles<width>(stream, params); });
}

}  // namespace rl::cuda
