// A stable sort of the entries; a run begins where the row changes.
#include "ops/cuda/row_runs.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace rl::cuda {

Runs upload_runs(CudaCompute& compute, std::span<const int32_t> rows) {
  const auto row_of = [&](int32_t entry) { return rows[static_cast<size_t>(entry)]; };
  std::vector<int32_t> entries(rows.size());
  std::iota(entries.begin(), entries.end(), 0);
  std::ranges::stable_sort(entries, {}, row_of);
  std::vector<int32_t> distinct, starts;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && row_of(entries[i]) == distinct.back()) continue;
    distinct.push_back(row_of(entries[i]));
    starts.push_back(static_cast<int32_t>(i));
  }
  starts.push_back(static_cast<int32_t>(entries.size()));
  return {compute.upload(std::span<const int32_t>(distinct)),
          compute.upload(std::span<const int32_t>(starts)),
          compute.upload(std::span<const int32_t>(entries)), static_cast<int64_t>(distinct.size())};
}

}  // namespace rl::cuda
