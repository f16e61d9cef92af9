// Decides which complete groups are committed to the experience buffer, and drops those that the
// update would learn nothing from: by their rewards (pipeline.filter), or because all their
// advantages are 0 (pipeline.discard_zero_advantage). The host receives an event for each, as for
// any dropped group. The loop's thread alone uses it.
#pragma once
#include <cstdint>

#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/scoring.h"

namespace rl {

class GroupFilter {
 public:
  // settings: those of the step in progress (Control::settings).
  GroupFilter(const Settings& settings, Scoring& scoring, const PhaseArena& phases)
      : settings_(settings), scoring_(scoring), phases_(phases) {}

  // Commits or drops the groups that are complete and not committed.
  FlowJudged commit_by_score();
  // Returns how many it dropped of the oldest that are committed, which a step of this many groups
  // is about to take.
  int64_t drop_zero_advantages(int64_t step_groups);

 private:
  const Settings& settings_;
  Scoring& scoring_;
  const PhaseArena& phases_;
};

}  // namespace rl
