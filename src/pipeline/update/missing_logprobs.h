// Old log-probs of samples that a host drew elsewhere and brought without them: a forward without
// gradients under the weights as they are, so that in the first optimizer step every ratio is
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
  int64_t rows = 0;  // forwarded
  int64_t ns = 0;

  void count(TrainMetrics& metrics) const;
};

// The samples have passed Trainer::check. A copy names the version of the weights that gave its
// log-probs.
CompletedBatch complete_logprobs(std::span<const SamplePtr> samples, Trainer& trainer,
                                 const Clock& clock);

}  // namespace rl
