// The speedup from computing a group's prompt once in training: time of forward, head and backward
// over groups with trainer.shared_prefix false, divided by the time with it true. Loss on every
// response token, micro-batches as the trainer plans them.
#pragma once
#include <cstdint>
#include <vector>

#include "bench/bench_model.h"
#include "train/options/trainer_options.h"
#include "train/passes/micro_batch_pass.h"

namespace rl::bench {

struct GroupTraining {
  int64_t groups, group_size, prompt_tokens, response_tokens;
  int64_t max_tokens;  // per micro-batch
};

class SharedPrefixCase {
 public:
  SharedPrefixCase(const BenchModel& bench, BackwardWeights& packed, const GroupTraining& shape);
  // Seconds of one pass over all samples; adds gradients to grads.
  double seconds(bool shared, float* grads);

 private:
  PackRules rules(bool shared) const;

  const BenchModel& bench_;
  BackwardWeights& packed_;
  std::vector<Sample> samples_;
  std::vector<PackItem> items_;
  TrainerOptions options_;
  Arena arena_;
  TrainBuffers workspace_;
};

}  // namespace rl::bench
