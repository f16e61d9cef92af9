// One step of a trace, small enough to be drawn: what each lane did when. Pieces of work that
// follow each other closely under one name are one piece with a count.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/trace.h"

namespace rl {

// The span that a step is, and the name of its number.
inline constexpr const char* kStepSpan = "pipeline.step";

struct StepTimeline {
  struct Work {
    std::string name;
    int64_t begin_ns = 0, end_ns = 0;  // from the begin of the step
    int64_t busy_ns = 0;               // without the gaps between its pieces
    int64_t count = 0;
  };
  struct Lane {
    std::string name;
    std::vector<Work> work;  // by begin
  };
  int64_t step = 0;
  int64_t length_ns = 0;
  std::vector<Lane> lanes;  // that worked in the step, by number
};

// The whole step of median length, without the lanes of samples; no lanes when there is none.
StepTimeline typical_step(std::span<const TraceSpan> spans,
                          const std::map<uint32_t, std::string>& lane_names);

}  // namespace rl
