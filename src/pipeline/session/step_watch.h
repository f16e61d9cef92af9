// Guards a change of a model's weights: if it ends without done() after it changed masters, and
// before it published them, the model is half-trained (loaded_model.h). Made under the WriteLease.
#pragma once
#include <cstdint>

#include "pipeline/session/loaded_model.h"

namespace rl {

class Trainer;

class StepWatch {
 public:
  // trainer: the one that runs a training step; null if something else writes the masters.
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
