// What the producer and the consumer of a run do to the world, and how they wait for it. The
// pipeline implements these interfaces with engine, scores and trainer, a simulator with fakes.
// One thread calls them, and each call but wait() is one piece of work.
#pragma once
#include <cstdint>

#include "pipeline/flow/flow_rules.h"

namespace rl {

enum class Turn : uint8_t {
  kWorked,
  kNothing,  // nothing to do now
  kEnd       // the host ends the run
};

class RolloutPort {
 public:
  virtual ~RolloutPort() = default;
  // The groups that no step has taken.
  virtual FlowGroups groups() = 0;
  // Draws prompts and opens their groups: at most `count`, or exactly that many if all is true.
  // Returns how many; 0: the source has too few.
  virtual int64_t draw(int64_t count, bool all) = 0;
  // The source had too few, and will have no more.
  virtual bool source_ended() = 0;
  // Whether a sample can be generated on.
  virtual bool can_generate() = 0;
  // Whether one is generated, or waits for a reply.
  virtual bool generating() = 0;
  // One forward; what it finishes is given to the scorers.
  virtual Turn generate() = 0;
  // Groups whose deadline has passed are dropped, which is a change (WaitPort). Whether no other
  // group waits for scores.
  virtual bool decide() = 0;
  // Keeps or filters the groups that are scored.
  virtual FlowJudged commit() = 0;
  // A batch is decided: not_replaced of its groups were filtered, in so many rounds.
  virtual void end_batch(int64_t rounds, int64_t not_replaced) = 0;
  virtual int64_t max_rounds() = 0;  // of filtering; 0: no limit
  // From now on samples that have not begun wait (true), or run again.
  virtual void hold_back(bool held) = 0;
  // Samples that a publication may not change the weights of: those begun, or those that have
  // lived through as many as they may.
  virtual int64_t num_bound() = 0;
  // Cancels the groups in generation that were drawn before so many steps were done.
  virtual void cancel_drawn_before(int64_t steps_done) = 0;
};

class UpdatePort {
 public:
  virtual ~UpdatePort() = default;
  virtual FlowProgress progress() = 0;
  // What is due between two steps needs the engine for itself.
  virtual bool needs_engine() = 0;
  // Does what is due between two steps; kEnd: no step follows.
  virtual Turn between_steps() = 0;
  // Drops complete groups that are too old. Returns how many.
  virtual int64_t drop_stale() = 0;
  // Takes the oldest complete groups, at most so many, and begins a step.
  virtual Turn begin(int64_t groups) = 0;
  // A micro-batch; kNothing: none was left, and the step is computed.
  virtual Turn next() = 0;
  // Publishes the weights and ends the step.
  virtual void publish() = 0;
};

class WaitPort {
 public:
  virtual ~WaitPort() = default;
  // Grows with whatever another thread or a deadline changes for the run.
  virtual uint64_t num_changes() = 0;
  // Returns once the number is another one, at a deadline, or after a second.
  virtual Turn wait(uint64_t seen) = 0;
};

}  // namespace rl
