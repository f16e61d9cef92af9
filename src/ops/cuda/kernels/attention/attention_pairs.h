// What both passes of attention's backward do with rows, keys and output gradients.
#pragma once
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "ops/cuda/kernels/attention/attention_backward.h"
#include "ops/cuda/kernels/attention/attention_places.h"

namespace rl::cuda {

RL_DEVICE int gradient_width(const AttentionSizes& s) {
  return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

// The pairs of a run that attend a key of a tile: all from the first row at or behind the tile to
// the last row whose window reaches it.
struct PairSpan {
  int first, end;
};
RL_DEVICE PairSpan pairs_of_keys(const AttentionSizes& s, const AttentionRun& run,
                                 const KeyTile& tile) {
  const int first = larger(0, tile.first_key - run.first_position);
  int end = run.rows;
  if (s.window > 0) {
    const int64_t reach = int64_t{tile.end_key} - 1 + s.window - run.first_position;
    if (reach < end) end = static_cast<int>(reach < 0 ? 0 : reach);
  }
  return {first * s.group, larger(first, end) * s.group};
}

// Writes a gradient, or adds it to that of earlier launches.
RL_DEVICE void put_gradient(float& to, float gradient, bool adds) {
  to = adds ? to + gradient : gradient;
}

// P and dS of a pair and a key: zeros if the pair does not attend it.
struct PairWeight {
  float p, ds;
};
RL_DEVICE PairWeight pair_weight(bool attended, float score, float dp, float lse, float delta) {
  if (!attended) return {0.0f, 0.0f};
  const float p = exp_of(score - lse);
  return {p, p * (dp - delta)};
}

}  // namespace rl::cuda
