// The plain path: parameter checks, argmax and the inverse-CDF scan of a whole row.
#include "algo/sampling.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"
#include "algo/wide.h"

namespace rl {
namespace {

constexpr size_t kTile = 512;
constexpr size_t kLanes = 16;

struct TileScan {
  size_t tile_begin;  // first id of the tile where the cumulative sum exceeds u, or the row's size
  double before;      // sum of all tiles before it
};

struct TileMasses {
  float mass[kTile];
  float sum;
};

// Masses of ids [begin, begin + kTile), 0 past the row's end, and their sum by fixed lanes.
RL_WIDE_INLINE inline void fill_tile(const PlainRow& row, size_t begin, TileMasses& out) {
  const size_t n = std::min(kTile, row.logits.size() - begin);
  const float* __restrict logits = row.logits.data() + begin;
  const float scale = row.inv_temperature;
  const float shift = row.log_sum_exp;
  float* __restrict mass = out.mass;
  for (size_t i = 0; i < n; ++i) mass[i] = wide::exp(logits[i] * scale - shift);
  for (size_t i = n; i < kTile; ++i) mass[i] = 0;
  float lanes[kLanes] = {};
  for (size_t i = 0; i < kTile; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += mass[i + j];
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  out.sum = lanes[0];
}

[[noreturn]] void fail_not_finite() {
  throw Error(Code::kNonFinite,
              "a logit of the row to sample from, or its log-sum-exp, is not finite")
      .with_key("logits");
}

}  // namespace

void validate(const SamplingParams& p) {
  const bool greedy = p.temperature == 0;
  require_value(greedy || (p.temperature >= 1e-6f && std::isfinite(p.temperature)),
                "sampling.temperature", p.temperature,
                "0 (greedy) or a finite value of at least 1e-6");
  require_value(p.top_p > 0 && p.top_p <= 1, "sampling.top_p", p.top_p, "above 0, at most 1");
  require_value(p.min_p >= 0 && p.min_p <= 1, "sampling.min_p", p.min_p, "0..1");
  require_value(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty),
                "sampling.repetition_penalty", p.repetition_penalty, "a finite value above 0");
  require_value(p.top_k >= 0, "sampling.top_k", p.top_k, "at least 0 (0 = off)");
}

bool is_plain(const SamplingParams& p) {
  return p.temperature > 0 && p.top_p == 1 && p.min_p == 0 && p.repetition_penalty == 1 &&
         p.top_k == 0;
}

int32_t greedy_token(std::span<const float> logits) {
  float best = -HUGE_VALF;
  bool bad = logits.empty();
  for (const float v : logits) {
    bad |= std::isnan(v);
    best = std::max(best, v);
  }
  if (bad || !std::isfinite(best)) fail_not_finite();
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

int32_t sample_plain(const PlainRow& row, double u) {
  RL_CHECK(u >= 0 && u < 1);
  RL_CHECK(row.inv_temperature > 0);
  if (!std::isfinite(row.log_sum_exp)) fail_not_finite();
  TileMasses tile;
  TileScan at{row.logits.size(), 0};
  wide::run([&]() RL_WIDE_INLINE {
    for (size_t begin = 0; begin < row.logits.size(); begin += kTile) {
      fill_tile(row, begin, tile);
      // Written so that NaN stops the scan too.
      if (!(at.before + tile.sum <= u)) {
        at.tile_begin = begin;
        return;
      }
      at.before += tile.sum;
    }
  });
  if (at.tile_begin == row.logits.size()) return greedy_token(row.logits);
  if (std::isnan(tile.sum)) fail_not_finite();
  const size_t n = std::min(kTile, row.logits.size() - at.tile_begin);
  double cumulative = at.before;
  size_t last = 0;
  for (size_t i = 0; i < n; ++i) {
    if (tile.mass[i] == 0) continue;
    last = i;
    cumulative += tile.mass[i];
    if (cumulative > u) break;
  }
  return static_cast<int32_t>(at.tile_begin + last);
}

}  // namespace rl
