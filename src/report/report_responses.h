// Which responses of metrics.samples the report shows: rows whose response changed between the
// first and the last evaluation, and the best and worst responses of training. Memory is bounded by
// two evaluations, whatever the length of the file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "profile/kept_response.h"
#include "report/report_series.h"

namespace rl {

struct ResponseChange {
  KeptResponse first, last;  // of the same row
};

struct ResponseDigest {
  uint64_t first_step = 0, last_step = 0;  // of the two evaluations compared
  size_t num_evals = 0;
  size_t num_compared = 0, num_better = 0, num_worse = 0, num_reworded = 0;
  std::vector<ResponseChange> better, worse, reworded;  // largest reward differences first
  std::vector<KeptResponse> best, worst;                // of training, one per prompt
};

ResponseDigest read_responses(FileSystem& fs, const std::string& path, ReadNotes& notes);

}  // namespace rl
