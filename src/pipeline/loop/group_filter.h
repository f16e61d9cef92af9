// Decides which complete groups are committed to the experience buffer, and drops those that the
// update would learn nothing from: by their rewards (pipeline.filter), or because all their
// advantages are 0 (pipeline.discard_zero_advantage). The host receives an event for each, as for
// any dropped group. The loop's thread alone uses it.
#pragma once
#include <cstdint>

#include "pipeline/loop/scoring.h"
#include "pipeline/update/policy_update.h"

namespace rl {

class GroupFilter {
 public:
  // settings: those of the step in progress (Control::settings).
  GroupFilter(const Settings& settings, Scoring& scoring, const PolicyUpdate& update)
      : settings_(settings), scoring_(scoring), update_(update) {}

  // Each call returns how many groups it dropped: of those that are complete and not committed, and
  // of all that the step has committed.
  int64_t commit_by_score();
  int64_t drop_zero_advantages();

 private:
  const Settings& settings_;
  Scoring& scoring_;
  const PolicyUpdate& update_;
};

}  // namespace rl
