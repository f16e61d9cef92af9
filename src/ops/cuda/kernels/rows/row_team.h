// The threads that share a row where a kernel sums over the row's elements: a warp if the row has
// at most kWarpRowWidth elements, else a block.
//
// Order of a sum over n elements: thread t of the T threads adds elements t, t + T, t + 2T, ...
// ascending, starting from zero. Lanes of a warp are then added by exchanges at distances 16, 8, 4,
// 2 and 1, and the warps of a block in order. T follows from the row's width alone, so a row's sum
// does not depend on other rows.
#pragma once
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"

namespace rl::cuda {

inline constexpr int kRowThreads = 256;  // of a block
inline constexpr int64_t kWarpRowWidth = 1024;

// One team for each row.
inline LaunchShape row_teams(int64_t rows, int64_t width) {
  constexpr int64_t kWarps = kRowThreads / kLanes;
  if (width <= kWarpRowWidth) return {(rows + kWarps - 1) / kWarps, kRowThreads};
  return {rows, kRowThreads, kWarps * sizeof(float)};
}

struct RowTeam {
  int64_t row;          // of a warp it may be past the last row
  int thread, threads;  // this thread, and how many there are
};
RL_DEVICE RowTeam row_team(int64_t width) {
  if (width <= kWarpRowWidth)
    return {block_x() * block_warps() + warp_index(), lane_index(), kLanes};
  return {block_x(), thread_index(), block_threads()};
}

// use(i, load(i)) for the thread's elements of a row of n, ascending. Loads of several elements
// come before their uses, so that they wait for memory together: the compiler would not move a load
// past what a use stores, which could be the same array.
template <typename Load, typename Use>
RL_DEVICE void each_ahead(const RowTeam& team, int64_t n, const Load& load, const Use& use) {
  constexpr int kAhead = 8;
  for (int64_t first = team.thread; first < n; first += int64_t{kAhead} * team.threads) {
    decltype(load(int64_t{})) values[kAhead];
    for (int j = 0; j < kAhead; ++j)
      if (first + j * team.threads < n) values[j] = load(first + j * team.threads);
    for (int j = 0; j < kAhead; ++j)
      if (first + j * team.threads < n) use(first + j * team.threads, values[j]);
  }
}

// The sum over the lanes, in every lane.
template <typename T>
RL_DEVICE T add_lanes(T value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value += shuffle_xor(value, distance);
  return value;
}
// The sum over the block, in every thread. `sums` has room for one value of each warp.
template <typename T>
RL_DEVICE T add_block(T value, T* sums) {
  value = add_lanes(value);
  if (lane_index() == 0) sums[warp_index()] = value;
  sync_block();
  T total = sums[0];
  for (int warp = 1; warp < block_warps(); ++warp) total += sums[warp];
  sync_block();  // before anyone writes the next sums
  return total;
}
// The sum over the team, in every thread of it.
RL_DEVICE float add_team(const RowTeam& team, float value) {
  return team.threads == kLanes ? add_lanes(value) : add_block(value, shared_at<float>(0));
}

}  // namespace rl::cuda
