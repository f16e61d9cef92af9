// What the emulated build has in place of files that need a toolkit: ranges that are counted.
#include "cuda/emulated_platform.h"

#include "device/cuda/ranges.h"

namespace rl::testing {

RangeCounts& range_counts() {
  static RangeCounts counts;
  return counts;
}

}  // namespace rl::testing

namespace rl::cuda {

RangeFunctions nvtx_functions() {
  return {[](const char* name) { rl::testing::range_counts().pushed.push_back(name); },
          [] { ++rl::testing::range_counts().popped; }};
}

}  // namespace rl::cuda
