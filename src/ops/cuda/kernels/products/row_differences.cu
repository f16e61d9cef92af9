// A team of threads for each row (row_team.h).
#include <bit>

#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/products/row_differences.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {
namespace {

RL_KERNEL void RL_BOUNDS(kRowThreads, 1) row_differences_kernel(RowDifferencesParams p) {
  const RowTeam team = row_team(p.width);
  int32_t count = 0;
  for (int64_t i = team.thread; team.row < p.rows && i < p.width; i += team.threads) {
    const int64_t at = team.row * p.width + i;
    count += std::bit_cast<uint32_t>(p.a[at]) != std::bit_cast<uint32_t>(p.b[at]) ? 1 : 0;
  }
  count = team.threads == kLanes ? add_lanes(count) : add_block(count, shared_at<int32_t>(0));
  if (team.thread == 0 && team.row < p.rows) p.counts[team.row] = count;
}

}  // namespace

void row_differences(cudaStream_t stream, const RowDifferencesParams& p) {
  launch("row_differences", row_differences_kernel, row_teams(p.rows, p.width), stream, p);
}

}  // namespace rl::cuda
