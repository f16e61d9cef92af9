// The report of a run: one self-contained HTML file that loads nothing. It takes plain data; the
// pipeline gathers it. Invariants: every external text passes escape_html; the page has no script,
// and a policy in its head forbids any; equal inputs give equal bytes.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/fs.h"
#include "profile/trace_recorder.h"

namespace rl {

// An arena as planned and as held; 0 if only the other side knows it.
struct ReportMemory {
  std::string name;
  uint64_t planned_bytes = 0, held_bytes = 0;
};

struct ReportInputs {
  std::string title;                                       // what was trained
  std::vector<std::pair<std::string, std::string>> facts;  // name and value, shown in this order
  std::vector<std::pair<std::string, std::string>>
      options;  // only those that differ from their defaults
  // Files; empty: the run writes none.
  std::string metrics_path, eval_path, responses_path;

  std::vector<ReportMemory> memory;
  uint64_t planned_bytes = 0;  // arenas and the estimate of everything else
  uint64_t baseline_bytes = 0;
  uint64_t peak_bytes = 0;  // of the process; 0: unknown

  TraceDigest trace;  // no spans: no trace
};

std::string render_report(const ReportInputs& inputs, FileSystem& fs);

}  // namespace rl
