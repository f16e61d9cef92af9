// Ranges that are counted, in place of those of NVTX.
#include "cuda/counted_ranges.h"

#include <mutex>

#include "device/cuda/ranges.h"

namespace rl::testing {
namespace {

std::mutex& counts_mutex() {
  static std::mutex mutex;
  return mutex;
}
RangeCounts& counts() {
  static RangeCounts counts;
  return counts;
}

}  // namespace

RangeCounts range_counts() {
  const std::lock_guard lock(counts_mutex());
  return counts();
}

}  // namespace rl::testing

namespace rl::cuda {

RangeFunctions nvtx_functions() {
  using rl::testing::counts, rl::testing::counts_mutex;
  return {[](const char* name) {
            const std::lock_guard lock(counts_mutex());
            ++counts().pushed[name];
          },
          [] {
            const std::lock_guard lock(counts_mutex());
            ++counts().popped;
          }};
}

}  // namespace rl::cuda
