// The ranges that ops opened on the emulated GPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rl::testing {

struct RangeCounts {
  std::vector<std::string> pushed;
  int64_t popped = 0;
};
// Of the process, which calls ops from one thread.
RangeCounts& range_counts();

}  // namespace rl::testing
