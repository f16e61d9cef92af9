// How near an optimizer step comes to the memory of the machine: the norm of the gradients and an
// AdamW step over all parameters of a model, against a copy that moves as many bytes. The norm
// reads 4 bytes a parameter, the step reads 16 and writes 12; so the copy reads 16 and writes 16.
#pragma once
#include "bench/bench_model.h"
#include "core/arena.h"
#include "ops/optimizer_ops.h"

namespace rl::bench {

class OptimizerCase {
 public:
  explicit OptimizerCase(const BenchModel& bench);
  double step_seconds();
  double copy_seconds();  // of the faster of two ways to copy

 private:
  float* array(int64_t index) { return arena_.at<float>(0) + index * count_; }
  double seconds_of_copies(int64_t piece);

  const BenchModel& bench_;
  int64_t count_;  // parameters
  Arena arena_;
  std::vector<double> sums_;
};

}  // namespace rl::bench
