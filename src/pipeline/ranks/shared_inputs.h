// What ranks that run one loop learn from outside: those that divide a model, or all ranks of a
// trainer that takes its groups from a store. The first of them has the events, is given scores and
// replies, and has the store; the others are given the same at the same places of their loops, so
// that all do the same and make the same calls. The loop's thread alone uses it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
#include "pipeline/config/settings.gen.h"
#include "pipeline/schedule/schedule_event.h"
#include "train/ranks/data_ranks.h"

namespace rl {

class SharedInputs {
 public:
  struct Round {
    bool stop = false;                   // a rank's host ends the run
    bool evaluate = false;               // it requests an evaluation
    std::vector<ScheduledEvent> inputs;  // of the first rank, in order
  };

  SharedInputs() = default;  // one rank
  // All of these.
  explicit SharedInputs(const DataRanks& all) : all_(all) {}
  // Those that have the other parts of this rank's layers, and those with its part of the other
  // stages.
  explicit SharedInputs(const TensorRanks& parts, const StageRanks& stages = {})
      : parts_(parts), stages_(stages) {}

  bool alone() const { return parts_.size() == 1 && stages_.alone() && all_.alone(); }
  // The first of them: of ranks that divide a model the first part of the first stage.
  bool leads() const { return parts_.rank() == 0 && stages_.rank() == 0 && all_.rank() == 0; }
  // What all ranks together have: the ranks call it together.
  Round exchange(const Round& own) const;
  // Whether one of them says so; together, too.
  bool any(bool own) const;
  // What the first one has; together, too.
  std::vector<std::byte> of_first(std::vector<std::byte> own) const;

 private:
  struct Message {
    uint64_t bytes = 0;  // of the first rank's document
    uint64_t stop = 0, evaluate = 0;
  };
  Message gather(const Message& own) const;
  void broadcast(std::vector<std::byte>& document) const;

  const TensorRanks parts_;
  const StageRanks stages_;
  const DataRanks all_;
};

// The key of an axis whose ranks divide a model, for errors: parallel.tensor, or parallel.pipeline
// where that is 1.
const char* partner_axis_of(const Settings& settings);

}  // namespace rl
