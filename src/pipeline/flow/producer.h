// Draws prompts, generates their samples and keeps their groups once they are scored: one of the
// two state machines of a run. By batches it is
//
//   resting -> producing -> replacing -> resting
//                 ^------------'          with each round of filtering
//
// and otherwise it draws whenever there is room.
#pragma once
#include <cstdint>

#include "pipeline/flow/ports.h"

namespace rl {

class Producer {
 public:
  Producer(const FlowRules& rules, RolloutPort& rollout) : rules_(rules), rollout_(rollout) {}

  // One piece of work.
  Turn advance(const FlowProgress& now);
  // While it is held it draws nothing new.
  void hold(bool held) { held_ = held; }
  // Nothing is being generated.
  bool quiet() { return state_ == State::kResting && !rollout_.generating(); }
  // By batches: a batch is complete and was not taken.
  bool has_batch() const { return has_batch_; }
  void take_batch() { has_batch_ = false; }
  // By batches: a batch is being made.
  bool makes_batch() const { return state_ != State::kResting; }
  // No group exists that a step could take.
  bool empty();
  bool source_ended() { return rollout_.source_ended(); }

 private:
  enum class State : uint8_t { kResting, kProducing, kReplacing };

  Turn rest(const FlowProgress& now);
  Turn produce();
  Turn replace();
  Turn flow(const FlowProgress& now);

  const FlowRules& rules_;
  RolloutPort& rollout_;
  State state_ = State::kResting;
  bool held_ = false, has_batch_ = false;
  int64_t rounds_ = 0, missing_ = 0;  // of the batch being made
};

}  // namespace rl
