// A warp for each request.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/head/lane_values.h"
#include "ops/cuda/kernels/head/sampling_draw.h"
#include "ops/cuda/kernels/head/sampling_plain.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {
namespace {

// The first index of [0, n) where the predicate holds, in every lane; n if there is none.
template <typename Predicate>
RL_DEVICE int64_t first_index(int64_t n, const Predicate& predicate) {
  for (int64_t first = 0; first < n; first += kLanes) {
    const int64_t i = first + lane_index();
    const int lane = first_lane(i < n && predicate(i));
    if (lane < kLanes) return first + lane;
  }
  return n;
}

template <typename Mass>
RL_DEVICE int64_t total_mass(int64_t n, const Mass& mass) {
  int64_t sum = 0;
  for (int64_t i = lane_index(); i < n; i += kLanes) sum += mass(i);
  return add_lanes(sum);
}

// The first index whose cumulative mass is above the target, and the mass before it.
struct Drawn {
  int64_t index, before;
};
template <typename Mass>
RL_DEVICE Drawn draw(int64_t n, int64_t target, const Mass& mass) {
  int64_t before = 0;
  for (int64_t first = 0; first < n; first += kLanes) {
    const int64_t i = first + lane_index(), mine = i < n ? mass(i) : 0;
    const int64_t up_to = before + scan_lanes(mine);
    const int lane = first_lane(up_to > target);
    if (lane < kLanes) return {first + lane, shuffle(up_to - mine, lane)};
    before = shuffle(up_to, kLanes - 1);
  }
  return {n - 1, before};  // not reached: the target is below the total
}

struct HeadRow {
  const float* z;
  const TileStats* tiles;
  RowStats stats;
  int64_t num_tiles;
};
template <typename Params>
RL_DEVICE HeadRow head_row(const Params& p, int64_t row) {
  const int64_t num_tiles = (p.vocab + p.width - 1) / p.width;
  return {p.z + row * p.vocab, p.tiles + row * num_tiles, p.stats[row], num_tiles};
}
RL_DEVICE bool has_choice(const RowStats& stats) {
  return is_finite(stats.max) && is_finite(stats.log_sum);
}
template <typename Params>
RL_DEVICE int64_t tile_size(const Params& p, int64_t tile) {
  return p.vocab - tile * p.width < p.width ? p.vocab - tile * p.width : p.width;
}

RL_DEVICE int64_t largest_id(const SamplePlainParams& p, const HeadRow& row) {
  const int64_t tile =
      first_index(row.num_tiles, [&](int64_t i) { return row.tiles[i].max == row.stats.max; });
  const int64_t first = tile * p.width;
  return first + first_index(tile_size(p, tile),
                             [&](int64_t i) { return row.z[first + i] == row.stats.max; });
}

RL_DEVICE int64_t drawn_id(const SamplePlainParams& p, const HeadRow& row, double u) {
  const auto tile_mass = [&](int64_t i) {
    const double scale = exp_of(static_cast<double>(row.tiles[i].max) - row.stats.max);
    return to_units(scale * row.tiles[i].sum, p.units);
  };
  const int64_t target = draw_target(u, total_mass(row.num_tiles, tile_mass));
  const Drawn tile = draw(row.num_tiles, target, tile_mass);
  const double rest =
      static_cast<double>(target - tile.before) / static_cast<double>(tile_mass(tile.index));
  const int64_t first = tile.index * p.width, n = tile_size(p, tile.index);
  const float max = row.tiles[tile.index].max;
  const auto id_mass = [&](int64_t i) { return to_units(exp_of(row.z[first + i] - max), p.units); };
  return first + draw(n, draw_target(rest, total_mass(n, id_mass)), id_mass).index;
}

RL_KERNEL void RL_BOUNDS(kLanes, 1) sample_plain_kernel(SamplePlainParams p) {
  const PlainRequest request = p.requests[block_x()];
  const HeadRow row = head_row(p, request.row);
  SampledToken token{-1, 0, 0, 0};
  if (has_choice(row.stats)) {
    const int64_t id = request.greedy != 0 ? largest_id(p, row) : drawn_id(p, row, request.u);
    const float logprob = log_prob(row.z[id], row.stats);
    token = {static_cast<int32_t>(id), logprob, request.greedy != 0 ? 0 : logprob, 1};
  }
  if (lane_index() == 0) p.tokens[request.token] = token;
}

// The largest logits of a row in descending order, ties by ascending id. Of every tile it keeps the
// largest logit that was not given yet, and how many ids of that logit were.
class Descent {
 public:
  RL_DEVICE Descent(const TopIdsParams& p, const HeadRow& row)
      : p_(p),
        row_(row),
        left_(shared_at<float>(0)),
        from_(shared_at<int32_t>(static_cast<size_t>(row.num_tiles) * sizeof(float))) {
    for (int64_t i = lane_index(); i < row.num_tiles; i += kLanes) {
      left_[i] = row.tiles[i].max;
      from_[i] = 0;
    }
    sync_warp();
  }

  RL_DEVICE int64_t next() {
    const int64_t tile = best_tile(), first = tile * p_.width, n = tile_size(p_, tile);
    const float top = left_[tile];
    const int64_t from = from_[tile];
    const auto is_next = [&](int64_t i) { return i >= from && row_.z[first + i] == top; };
    const int64_t at = first_index(n, is_next);
    const auto is_after = [&](int64_t i) { return i > at && row_.z[first + i] == top; };
    const bool tied = first_index(n, is_after) < n;
    const float below = largest_below(first, n, top);
    sync_warp();
    if (lane_index() == 0) {
      left_[tile] = tied ? top : below;
      from_[tile] = tied ? static_cast<int32_t>(at + 1) : 0;
    }
    sync_warp();
    return first + at;
  }

 private:
  RL_DEVICE int64_t best_tile() const {
    float top = -HUGE_VALF;
    for (int64_t i = lane_index(); i < row_.num_tiles; i += kLanes) top = max_of(top, left_[i]);
    top = max_lanes(top);
    return first_index(row_.num_tiles, [&](int64_t i) { return left_[i] == top; });
  }
  // The largest logit of the tile below `top`, or -inf.
  RL_DEVICE float largest_below(int64_t first, int64_t n, float top) const {
    float best = -HUGE_VALF;
    for (int64_t i = lane_index(); i < n; i += kLanes) {
      const float z = row_.z[first + i];
      if (z < top) best = max_of(best, z);
    }
    return max_lanes(best);
  }

  const TopIdsParams& p_;
  const HeadRow& row_;
  float* left_;    // (tiles)
  int32_t* from_;  // (tiles)
};

RL_KERNEL void RL_BOUNDS(kLanes, 1) top_ids_kernel(TopIdsParams p) {
  const TopRequest request = p.requests[block_x()];
  const HeadRow row = head_row(p, request.row);
  if (!has_choice(row.stats)) {
    for (int i = lane_index(); i < request.count; i += kLanes) {
      p.ids[request.first + i] = -1;
      p.logprobs[request.first + i] = 0;
    }
    return;
  }
  Descent descent(p, row);
  for (int i = 0; i < request.count; ++i) {
    const int64_t id = descent.next();
    if (lane_index() != 0) continue;
    p.ids[request.first + i] = static_cast<int32_t>(id);
    p.logprobs[request.first + i] = log_prob(row.z[id], row.stats);
  }
}

}  // namespace

void sample_plain(cudaStream_t stream, const SamplePlainParams& p) {
  launch("sample_plain", sample_plain_kernel, {p.count, kLanes}, stream, p);
}

void top_ids(cudaStream_t stream, const TopIdsParams& p) {
  const auto tiles = static_cast<uint64_t>((p.vocab + p.width - 1) / p.width);
  launch("top_ids", top_ids_kernel, {p.count, kLanes, tiles * (sizeof(float) + sizeof(int32_t))},
         stream, p);
}

}  // namespace rl::cuda
