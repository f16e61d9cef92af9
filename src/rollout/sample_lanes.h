// Lanes of an engine (pipeline.max_concurrent_prompts_per_engine): a sample begins only in a free
// one. Each sample has a lane of its own, or a group takes as many as it has samples at once and
// leaves them together. A lane may stay taken after its sample until whoever uses the engine frees
// it. Samples of evaluations need none.
#pragma once
#include <cstdint>
#include <set>

#include "core/function_ref.h"
#include "rollout/lane_rules.h"
#include "rollout/sequence.h"

namespace rl {

class SampleLanes {
 public:
  explicit SampleLanes(const LaneRules& rules) : rules_(rules) {}

  // Whether a sample that has not run may begin.
  bool has_room(const Sequence& sequence) const;
  // It begins.
  void take(Sequence& sequence);
  // It has begun, and is finished.
  void leave(const Sequence& sequence);
  // Of the lanes that finished samples hold, frees those that may be.
  void free_if(FunctionRef<bool(uint64_t sample_id)> may_be);
  int64_t num_taken() const { return taken_; }
  int64_t num_held() const { return static_cast<int64_t>(held_.size()); }  // of them

 private:
  bool counts(const Sequence& sequence) const;

  const LaneRules rules_;
  int64_t taken_ = 0;
  std::set<uint64_t> held_;  // finished samples
};

}  // namespace rl
