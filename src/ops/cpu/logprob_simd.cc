// Statistics and gradients of logit rows on the CPU.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/logprob_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target first
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/simd-inl.h"
#include "ops/logprob.h"

HWY_BEFORE_NAMESPACE();
namespace rl {
namespace HWY_NAMESPACE {

float scale_and_max(const ScaleTileArgs& a) {
  const int64_t n = a.count;
  const float inv = a.inv_temperature;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto top = hn::Set(d, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::Mul(hn::LoadU(d, a.from + i), hn::Set(d, inv));
    hn::StoreU(v, d, a.to + i);
    top = hn::Max(top, v);
  }
  float max = hn::GetLane(hn::MaxOfLanes(d, top));
  for (; i < n; ++i) {
    a.to[i] = a.from[i] * inv;
    max = std::max(max, a.to[i]);
  }
  return max;
}

TileStats scale_and_measure_target(const ScaleTileArgs& args) {
  const float max = scale_and_max(args);
  const float* z = args.to;
  const int64_t n = args.count;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), w0 = hn::Zero(d), w1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::Sub(hn::LoadU(d, z + i), hn::Set(d, max));
    const auto b = hn::Sub(hn::LoadU(d, z + i + lanes), hn::Set(d, max));
    const auto ea = hn::Exp(d, a), eb = hn::Exp(d, b);
    s0 = hn::Add(s0, ea);
    s1 = hn::Add(s1, eb);
    w0 = hn::MulAdd(ea, a, w0);
    w1 = hn::MulAdd(eb, b, w1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  float weighted = hn::GetLane(hn::SumOfLanes(d, hn::Add(w0, w1)));
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) {
    const auto a = hn::Set(one, z[i] - max);
    const auto e = hn::Exp(one, a);
    sum += hn::GetLane(e);
    weighted += hn::GetLane(hn::Mul(e, a));
  }
  return {max, sum, weighted};
}

int64_t sample_in_tile_target(const float* z, int64_t n, float max, float sum, double target) {
  // Recomputes exp of the tile with the same routine, 64 at a time; the running sum is double, in
  // id order.
  HWY_ALIGN float e[64];
  double running = 0.0;
  int64_t last_positive = 0;
  for (int64_t i = 0; i < n; i += 64) {
    const int64_t m = std::min<int64_t>(64, n - i);
    for_each_lane(m, [&](auto d, int64_t j) {
      store(hn::Exp(d, hn::Sub(load(d, z + i + j), hn::Set(d, max))), d, e + j);
    });
    for (int64_t j = 0; j < m; ++j) {
      if (e[j] > 0.0f) last_positive = i + j;
      running += e[j];
      if (running > target * sum) return i + j;
    }
  }
  return last_positive;  // rounding left u above the last id's CDF
}

template <typename T, bool kMore>
void backward_row(const LogitsBackwardArgs& a) {
  T* out = static_cast<T*>(a.d_logits);
  const float down = -a.d_logprob * a.inv_temperature;
  const float pull = -a.d_entropy * a.inv_temperature;
  for_each_lane(a.n, [&](auto d, int64_t i) {
    const auto log_p =
        hn::Sub(hn::Sub(load(d, a.z + i), hn::Set(d, a.stats.max)), hn::Set(d, a.stats.log_sum));
    const auto p = hn::Exp(d, log_p);
    const auto h = hn::Mul(hn::Set(d, pull), hn::Add(log_p, hn::Set(d, a.stats.entropy)));
    const auto own = hn::Mul(p, hn::Add(hn::Set(d, down), h));
    if constexpr (kMore) {
      store(hn::Add(own, hn::Mul(hn::Set(d, a.inv_temperature), load(d, a.more + i))), d, out + i);
    } else {
      store(own, d, out + i);
    }
  });
  if (a.id < 0 || a.id >= a.n) return;
  const float log_p = log_prob(a.z[a.id], a.stats);
  const float p = std::exp(log_p);
  float g = a.inv_temperature * a.d_logprob * (1.0f - p) + p * pull * (log_p + a.stats.entropy);
  if constexpr (kMore) g += a.inv_temperature * a.more[a.id];
  if constexpr (sizeof(T) == 4)
    out[a.id] = g;
  else
    out[a.id] = to_bf16(g);
}

void logits_backward_target(const LogitsBackwardArgs& a) {
  const bool more = a.more != nullptr;
  if (a.dtype == Dtype::kF32)
    more ? backward_row<float, true>(a) : backward_row<float, false>(a);
  else
    more ? backward_row<bf16, true>(a) : backward_row<bf16, false>(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace rl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rl {
HWY_EXPORT(scale_and_measure_target);
HWY_EXPORT(sample_in_tile_target);
HWY_EXPORT(logits_backward_target);

TileStats scale_and_measure(const ScaleTileArgs& args) {
  return HWY_DYNAMIC_DISPATCH(scale_and_measure_target)(args);
}

RowStats combine_tiles(const TileStats* tiles, int64_t count) {
  float max = tiles[0].max;
  for (int64_t i = 1; i < count; ++i) max = std::max(max, tiles[i].max);
  double sum = 0.0, weighted = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double scale = std::exp(static_cast<double>(tiles[i].max) - max);
    sum += scale * tiles[i].sum;
    weighted +=
        scale * (tiles[i].weighted + (static_cast<double>(tiles[i].max) - max) * tiles[i].sum);
  }
  // entropy = log S - E[z - M]
  // The vector exp of a NaN is 0, but the weighted sum keeps the NaN; propagate it, so that the row
  // does not look finite.
  const double log_sum = std::isnan(weighted) ? weighted : std::log(sum);
  return {max, static_cast<float>(log_sum), static_cast<float>(sum),
          static_cast<float>(log_sum - weighted / sum)};
}

int64_t argmax(const float* z, int64_t n) { return std::max_element(z, z + n) - z; }

int64_t sample_token(const SampleTokenArgs& a) {
  const int64_t count = (a.vocab + a.width - 1) / a.width;
  double total = 0.0;
  for (int64_t i = 0; i < count; ++i)
    total += std::exp(static_cast<double>(a.tiles[i].max) - a.stats.max) * a.tiles[i].sum;
  double before = 0.0;
  const double target = a.u * total;
  int64_t tile = 0, last_with_mass = 0;
  double scale = 0.0;
  for (; tile < count; ++tile) {
    const double s = std::exp(static_cast<double>(a.tiles[tile].max) - a.stats.max);
    const double mass = s * a.tiles[tile].sum;
    if (mass > 0.0) last_with_mass = tile;
    if (before + mass > target) {
      scale = s;
      break;
    }
    before += mass;
  }
  double rest = 1.0;
  if (tile == count)
    tile = last_with_mass;
  else
    rest = (target - before) / (scale * a.tiles[tile].sum);
  const int64_t first = tile * a.width;
  const int64_t n = std::min(a.width, a.vocab - first);
  return first + HWY_DYNAMIC_DISPATCH(sample_in_tile_target)(a.z + first, n, a.tiles[tile].max,
                                                             a.tiles[tile].sum, rest);
}

// Ids come in ascending order, so an id that ties with the last one kept goes behind it. Most tiles
// have no logit above that one.
void top_ids(const TopArgs& a, std::span<int32_t> ids) {
  const auto room = static_cast<int64_t>(ids.size());
  int64_t kept = 0;
  for (int64_t tile = 0; tile * a.width < a.vocab && room > 0; ++tile) {
    if (kept == room && !(a.tiles[tile].max > a.z[ids[room - 1]])) continue;
    const int64_t first = tile * a.width, end = std::min(first + a.width, a.vocab);
    for (int64_t id = first; id < end; ++id) {
      const float z = a.z[id];
      if (kept == room && !(z > a.z[ids[room - 1]])) continue;
      int64_t at = kept < room ? kept++ : room - 1;
      for (; at > 0 && z > a.z[ids[at - 1]]; --at) ids[at] = ids[at - 1];
      ids[at] = static_cast<int32_t>(id);
    }
  }
}

void logits_backward(const LogitsBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(logits_backward_target)(args);
}
}  // namespace rl
#endif
