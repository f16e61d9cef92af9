// What the loop keeps for the length of one step. The loop's thread alone uses it.
#pragma once
#include <cstdint>

#include "profile/metrics.h"
#include "rollout/engine_stats.h"

namespace rl {

struct StepRecord {
  // Groups that filters dropped.
  struct Filtered {
    int64_t score = 0, zero_advantage = 0;
    int64_t missing = 0;  // dropped by score and not yet replaced
    int64_t rounds = 0;

    MetricList metrics() const;
  };
  struct Times {
    int64_t begin = 0, drawn = 0, generated = 0, scored = 0, trained = 0;
  };

  uint64_t drawn = 0;      // groups
  bool generates = false;  // groups wait for their responses
  Filtered filtered;
  Times times;
  EngineStats engine_before;
  MetricList trained;    // what the update measured
  bool applied = false;  // the update changed weights
  bool skipped = false;  // an optimizer step was skipped: its loss or gradient was not finite

  // Metrics of generation; engine is the state after it.
  MetricList generation_metrics(const EngineStats& engine) const;
  // Adds tokens, rates and times of the whole step, which ends now, to its other metrics.
  // generates: the step generated its responses.
  void set_times(MetricList& metrics, int64_t now_ns, bool generates) const;
};

}  // namespace rl
