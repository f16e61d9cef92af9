// What the loop keeps for the length of one step: from the end of the step before to its own end,
// whichever step the groups of this time are for. The loop's thread alone uses it.
#pragma once
#include <cstdint>

#include "profile/metrics.h"
#include "rollout/engine_stats.h"
#include "train/losses/train_metrics.h"

namespace rl {

struct StepRecord {
  // Groups that filters dropped.
  struct Filtered {
    int64_t score = 0, zero_advantage = 0;
    int64_t missing = 0;  // dropped by score and not replaced
    int64_t rounds = 0;

    MetricList metrics() const;
  };
  // Durations but for `begin`. Each moment of the loop's thread counts for one of the first four
  // at most.
  struct Times {
    int64_t begin = 0;
    int64_t drawing_ns = 0;
    int64_t generating_ns = 0;  // replies that nothing else could go on without included
    int64_t scoring_ns = 0;     // while nothing could be generated or trained
    int64_t training_ns = 0;
    int64_t no_batch_ns = 0;     // of the step, until there was a batch
    int64_t unpublished_ns = 0;  // from trained weights to their publication
  };

  Filtered filtered;
  Times times;
  EngineStats engine_before;
  int64_t prefetched_before = 0;
  int64_t rows_read_before = 0;
  MetricList trained;    // of the batch
  TrainMetrics update;   // of the optimizer steps
  bool applied = false;  // the update changed weights
  bool skipped = false;  // an optimizer step was skipped: its loss or gradient was not finite

  // Metrics of generation; engine is the state after it.
  MetricList generation_metrics(const EngineStats& engine) const;
  // Adds tokens, rates and times of the whole step, which ends now, to its other metrics.
  // generates: the step generated its responses.
  void set_times(MetricList& metrics, int64_t now_ns, bool generates) const;
};

}  // namespace rl
