#include "pipeline/flow/consumer.h"

namespace rl {

Turn Consumer::advance(bool ending) {
  switch (state_) {
    case State::kBoundary:
      return begin_step();
    case State::kWaiting:
      return wait();
    case State::kTraining:
      return train();
    case State::kTrained:
      return publish(ending);
  }
  return Turn::kNothing;
}

// Prompts are drawn under the options that hold from here on. An evaluation has the engine for
// itself, and so all its samples one version.
Turn Consumer::begin_step() {
  if (update_.needs_engine() && !producer_.quiet()) return Turn::kNothing;
  if (update_.between_steps() == Turn::kEnd) return Turn::kEnd;
  producer_.hold(false);
  state_ = State::kWaiting;
  return Turn::kWorked;
}

// While there is not even a prompt, what is due does not wait for a step.
Turn Consumer::wait() {
  if (!rules_.by_batch && update_.drop_stale() > 0) return Turn::kWorked;
  if (!is_ready()) {
    if (producer_.empty() && update_.between_steps() == Turn::kEnd) return Turn::kEnd;
    return Turn::kNothing;
  }
  producer_.take_batch();
  if (update_.begin(rules_.batch_groups) == Turn::kEnd) return Turn::kEnd;
  state_ = State::kTraining;
  return Turn::kWorked;
}

bool Consumer::is_ready() {
  if (rules_.by_batch) return producer_.has_batch();
  return is_batch_ready(rules_, rollout_.groups(), update_.progress().steps_done);
}

bool Consumer::starves() {
  if (state_ != State::kWaiting || !producer_.source_ended() || is_ready()) return false;
  return !producer_.makes_batch() && rollout_.groups().unfinished.empty();
}

Turn Consumer::train() {
  const Turn turn = update_.next();
  if (turn != Turn::kNothing) return turn;
  state_ = State::kTrained;
  return Turn::kWorked;
}

// By batches the samples of the next one all come from the version before. Otherwise samples that
// a publication may not touch are finished first, and none begins meanwhile.
bool Consumer::may_publish() {
  if (rules_.by_batch) return !producer_.makes_batch();
  if (rollout_.num_bound() == 0) return true;
  rollout_.hold_back(true);
  return false;
}

Turn Consumer::publish(bool ending) {
  if (!ending && !may_publish()) return Turn::kNothing;
  update_.publish();
  producer_.hold(true);
  rollout_.hold_back(false);
  if (rules_.max_off_policy >= 0) {
    rollout_.cancel_drawn_before(update_.progress().steps_done - rules_.max_off_policy);
  }
  state_ = State::kBoundary;
  return Turn::kWorked;
}

}  // namespace rl
