// From logits to log-probs: the single implementation behind contract N2. Vocabulary tiles are the
// column slices of the head, taken in order, in sampling and in training alike.
//
// Per row with temperature T: z = logit * (1 / T) in fp32. A tile yields its maximum m, sum s of
// exp(z - m) and weighted sum w of exp(z - m) * (z - m) (lane accumulators, sum_lanes order). Tiles
// combine in order:
//   M = max m_i, S = sum s_i exp(m_i - M), log p(id) = (z_id - M) - log S, both differences in
//   fp32,
//   entropy = log S - (sum over tiles of exp(m_i - M) (w_i + (m_i - M) s_i)) / S,
//   sums over tiles in double.
// M + log S is never formed: its rounding error grows with the logits (2^-16 at 300), while the
// error of the two differences grows with -log p alone. Backward:
//   d z_j = d_logprob (1[j = id] - p_j) - d_entropy p_j (log p_j + entropy) + more_j
//   d logit = d z / T
#pragma once
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace rl {

struct TileStats {
  float max, sum, weighted;
};

// to = from scaled by inv_temperature, a row of one tile, which may be in place; returns its
// statistics.
struct ScaleTileArgs {
  const float* from;
  int64_t count;
  float inv_temperature;
  float* to;
};
TileStats scale_and_measure(const ScaleTileArgs& args);
inline TileStats scale_and_measure(float* z, int64_t n, float inv_temperature) {
  return scale_and_measure({z, n, inv_temperature, z});
}

struct RowStats {
  float max;      // over the whole row
  float log_sum;  // log of sum
  float sum;      // sum of exp(z - max)
  float entropy;  // nats
};
// For the id whose scaled logit is z.
constexpr float log_prob(float z, const RowStats& row) { return (z - row.max) - row.log_sum; }

// Combines `count` tiles in order.
RowStats combine_tiles(const TileStats* tiles, int64_t count);

// The first index whose scaled logit is largest.
int64_t argmax(const float* z, int64_t n);

// Samples by inverse CDF in id order: the smallest id with CDF(id) > u, u in [0, 1). Tiles first
// (their sums in order), then ids within one tile. width is the tile width.
struct SampleTokenArgs {
  const float* z;
  int64_t vocab, width;
  const TileStats* tiles;
  RowStats stats;
  double u;
};
int64_t sample_token(const SampleTokenArgs& args);

// Writes the ids of the largest scaled logits, as many as `ids` holds (at most the row's size):
// largest first, ties by lower id. Tiles are as in SampleTokenArgs; the row has no NaN.
struct TopArgs {
  const float* z;
  int64_t vocab, width;
  const TileStats* tiles;
};
void top_ids(const TopArgs& args, std::span<int32_t> ids);

struct LogitsBackwardArgs {
  const float* z;  // (n) scaled logits of one row, or of a part of it
  int64_t n;
  RowStats stats;  // of the whole row
  int64_t id;      // counted from z; it may be outside
  float d_logprob, d_entropy, inv_temperature;
  void* d_logits;  // (n) compute dtype
  Dtype dtype;
  const float* more = nullptr;  // (n) added to d z; null: none
};
void logits_backward(const LogitsBackwardArgs& args);

}  // namespace rl
