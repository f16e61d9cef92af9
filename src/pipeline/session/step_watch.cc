// It allocates nothing, because memory may be what has run out.
#include "pipeline/session/step_watch.h"

#include "train/trainer.h"

namespace rl {

StepWatch::StepWatch(LoadedModel& model, const Trainer* trainer)
    : model_(model),
      trainer_(trainer),
      release_(model.model().published().release()),
      steps_before_(optimizer_steps()) {}

int64_t StepWatch::optimizer_steps() const {
  return trainer_ != nullptr ? trainer_->counters().optimizer_steps : 0;
}

StepWatch::~StepWatch() {
  const int64_t applied = optimizer_steps() - steps_before_;
  if (done_ || (applied == 0 && !model_.model().masters_changed())) return;
  model_.note_failed_step({release_, applied, trainer_ != nullptr ? trainer_->planned_steps() : 0});
}

}  // namespace rl
