// Old log-probs for samples that a host generated elsewhere and brought without them: a forward
// without gradients under the current weights, so that in the first optimizer step every ratio is
// exactly 1.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/clock.h"
#include "data/sample.h"
#include "train/losses/train_metrics.h"
#include "train/trainer.h"

namespace rl {

struct CompletedBatch {
  std::vector<SamplePtr> samples;  // in the order given; copies where log-probs were missing
  int64_t num_completed = 0;
  int64_t rows = 0;  // computed
  int64_t ns = 0;

  void count(TrainMetrics& metrics) const;
};

// The samples have passed Trainer::check. A copy names the version of the weights that computed
// its log-probs.
CompletedBatch complete_logprobs(std::span<const SamplePtr> samples, Trainer& trainer,
                                 const Clock& clock);

}  // namespace rl
