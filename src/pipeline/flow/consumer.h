// Takes batches, trains on them and publishes: one of the two state machines of a run.
//
//   boundary -> waiting -> training -> trained -> boundary
//
// At a boundary is done what is due between two steps. A trained step waits until its weights may
// be published (may_publish), which the engine reads from its next forward on.
#pragma once
#include <cstdint>

#include "pipeline/flow/producer.h"

namespace rl {

class Consumer {
 public:
  Consumer(const FlowRules& rules, Producer& producer, RolloutPort& rollout, UpdatePort& update)
      : rules_(rules), producer_(producer), rollout_(rollout), update_(update) {}

  // One piece of work. ending: the host ends the run, and nothing is generated any more.
  Turn advance(bool ending);
  // A batch was taken, and its step is not done.
  bool training() const { return state_ == State::kTraining || state_ == State::kTrained; }
  // Nothing that exists will ever be a batch.
  bool starves();

 private:
  enum class State : uint8_t { kBoundary, kWaiting, kTraining, kTrained };

  Turn begin_step();
  Turn wait();
  Turn train();
  Turn publish(bool ending);
  bool is_ready();
  bool may_publish();

  const FlowRules& rules_;
  Producer& producer_;
  RolloutPort& rollout_;
  UpdatePort& update_;
  State state_ = State::kBoundary;
};

}  // namespace rl
