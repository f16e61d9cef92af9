// Values over the lanes of a warp, beside the sums of row_team.h.
#pragma once
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"

namespace rl::cuda {

// The largest, in every lane. NaNs are passed over.
RL_DEVICE float max_lanes(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = max_of(value, shuffle_xor(value, distance));
  return value;
}

// The sum of the values of the lanes up to this one. Integers only: the order of the sum is not
// that of the lanes.
RL_DEVICE int64_t scan_lanes(int64_t value) {
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const int64_t before = shuffle(value, (lane_index() - distance) & (kLanes - 1));
    if (lane_index() >= distance) value += before;
  }
  return value;
}

// The first lane where the predicate holds, or kLanes.
RL_DEVICE int first_lane(bool predicate) { return lowest_bit(ballot(predicate)); }

}  // namespace rl::cuda
