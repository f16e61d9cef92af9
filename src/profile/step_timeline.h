// One step of a trace, small enough to plot: what each lane did when. Work of the same name that
// follows closely is merged into one entry with a count.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/trace.h"

namespace rl {

// The span of a step, and the name of its number.
inline constexpr const char* kStepSpan = "pipeline.step";

struct StepTimeline {
  struct Work {
    std::string name;
    int64_t begin_ns = 0, end_ns = 0;  // from the beginning of the step
    int64_t busy_ns = 0;               // without the gaps inside
    int64_t count = 0;
  };
  struct Lane {
    std::string name;
    std::vector<Work> work;  // by begin
  };
  int64_t step = 0;
  int64_t length_ns = 0;
  std::vector<Lane> lanes;  // lanes that worked in the step, by number
};

// The complete step of median length, without sample lanes; no lanes if there is no such step.
StepTimeline typical_step(std::span<const TraceSpan> spans,
                          const std::map<uint32_t, std::string>& lane_names);

}  // namespace rl
