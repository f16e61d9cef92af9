// The ranges that ops opened on the GPU, counted over all tests of a program.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace rl::testing {

struct RangeCounts {
  std::map<std::string, int64_t> pushed;  // by the op's name
  int64_t popped = 0;
};
// A copy. Any thread.
RangeCounts range_counts();

}  // namespace rl::testing
