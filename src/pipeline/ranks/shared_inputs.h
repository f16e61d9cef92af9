// What the loops of ranks that divide a model learn from outside. The first of them has the events
// and is given scores and replies; the others are given the same at the same places of their loops,
// so that all do the same and make the same calls. The loop's thread alone uses it.
#pragma once
#include <vector>

#include "model/ranks/tensor_ranks.h"
#include "pipeline/schedule/schedule_event.h"

namespace rl {

class SharedInputs {
 public:
  struct Round {
    bool stop = false;                   // a rank's host ends the run
    bool evaluate = false;               // it requests an evaluation
    std::vector<ScheduledEvent> inputs;  // of the first rank, in order
  };

  explicit SharedInputs(const TensorRanks& ranks) : ranks_(ranks) {}

  bool alone() const { return ranks_.size() == 1; }
  bool leads() const { return ranks_.rank() == 0; }
  // What all ranks together have: the ranks call it together.
  Round exchange(const Round& own) const;
  // Whether one of them says so; together, too.
  bool any(bool own) const;

 private:
  const TensorRanks ranks_;
};

}  // namespace rl
