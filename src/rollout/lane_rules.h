// How many samples of an engine may be under way (sample_lanes.h).
#pragma once
#include <cstdint>

namespace rl {

struct LaneRules {
  int64_t lanes = 0;  // at least the samples of a group; 0: there are no lanes
  bool whole_groups = false;
  bool until_freed = false;  // not with whole_groups
};

}  // namespace rl
