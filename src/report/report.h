// The report of a run: one HTML file that needs nothing else and loads nothing. It takes plain
// data; the pipeline gathers it. Invariants: every text from outside passes escape_html; the page
// has no script, and a policy in its head forbids any; equal inputs give equal bytes.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/fs.h"
#include "profile/trace_recorder.h"

namespace rl {

// An arena as it was planned and as it is held; 0 where the other side does not know it.
struct ReportMemory {
  std::string name;
  uint64_t planned_bytes = 0, held_bytes = 0;
};

struct ReportInputs {
  std::string title;                                         // what was trained
  std::vector<std::pair<std::string, std::string>> facts;    // name and value, shown in this order
  std::vector<std::pair<std::string, std::string>> options;  // that differ from their defaults
  // Files; empty: the run writes none.
  std::string metrics_path, eval_path, answers_path;

  std::vector<ReportMemory> memory;
  uint64_t planned_bytes = 0;  // arenas and the estimate of all else
  uint64_t baseline_bytes = 0;
  uint64_t peak_bytes = 0;  // of the process; 0: not known

  TraceDigest trace;  // no spans: there is none
};

std::string render_report(const ReportInputs& inputs, FileSystem& fs);

}  // namespace rl
