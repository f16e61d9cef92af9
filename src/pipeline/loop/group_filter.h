// Drops groups that the update would learn nothing from: by their rewards (pipeline.filter), or
// because all their advantages are 0 (pipeline.discard_zero_advantage). The host is told of them
// like of any other dropped group. The loop's thread alone uses it.
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

  // Every open group is complete; each call returns how many it dropped.
  int64_t drop_by_score();
  int64_t drop_zero_advantages();

 private:
  const Settings& settings_;
  Scoring& scoring_;
  const PolicyUpdate& update_;
};

}  // namespace rl
