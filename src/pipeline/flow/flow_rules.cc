#include "pipeline/flow/flow_rules.h"

#include <algorithm>
#include <iterator>

namespace rl {

// At most max_staleness + 1 batches exist at a time, so the last group of them is trained on
// max_staleness steps after the one in progress or the next one.
int64_t num_to_draw(const FlowRules& rules, const FlowGroups& groups, const FlowProgress& now) {
  const auto batches = [&](int64_t count) { return count * rules.batch_groups; };
  const int64_t taken = now.training ? 1 : 0;
  const auto waiting = static_cast<int64_t>(groups.unfinished.size() + groups.complete.size());
  int64_t most = std::min(batches(rules.max_staleness + 1 - taken),
                          batches(rules.queue_batches + 1) + rules.surplus_groups);
  if (now.steps_left >= 0) most = std::min(most, batches(now.steps_left - taken));
  return std::max<int64_t>(0, most - waiting);
}

// The groups that stay go into the following steps in their order. If one of them would be too old
// by then, this batch waits for an older one that is not complete yet, which would make room.
// Groups that are too old for any step count for nothing.
bool is_batch_ready(const FlowRules& rules, const FlowGroups& groups, int64_t steps_done) {
  const int64_t batch = rules.batch_groups, oldest = steps_done - rules.max_staleness;
  if (static_cast<int64_t>(groups.complete.size()) < batch) return false;
  const auto stay = groups.complete.begin() + batch;
  const int64_t youngest_taken = *std::prev(stay);
  const auto slow = std::ranges::lower_bound(groups.unfinished, oldest);
  if (slow == groups.unfinished.end() || *slow >= youngest_taken) return true;
  std::vector<int64_t> later;
  std::merge(stay, groups.complete.end(), slow, groups.unfinished.end(), std::back_inserter(later));
  for (size_t i = 0; i < later.size(); ++i) {
    const int64_t step = steps_done + 1 + static_cast<int64_t>(i) / batch;
    if (step - later[i] > rules.max_staleness && *slow <= later[i]) return false;
  }
  return true;
}

}  // namespace rl
