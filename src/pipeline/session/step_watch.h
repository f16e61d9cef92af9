// Watches a change of a model's weights: one that ends without done() after it moved masters, and
// before it published them, leaves the model half-trained (loaded_model.h). Made under the
// WriteLease.
#pragma once
#include <cstdint>

#include "pipeline/session/loaded_model.h"

namespace rl {

class Trainer;

class StepWatch {
 public:
  // trainer is that of a training step; null: something else writes the masters.
  StepWatch(LoadedModel& model, const Trainer* trainer);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  void done() { done_ = true; }

 private:
  int64_t optimizer_steps() const;

  LoadedModel& model_;
  const Trainer* const trainer_;
  const uint64_t release_;
  const int64_t steps_before_;
  bool done_ = false;
};

}  // namespace rl
