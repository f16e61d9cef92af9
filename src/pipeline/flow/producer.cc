#include "pipeline/flow/producer.h"

namespace rl {

Turn Producer::advance(const FlowProgress& now) {
  if (!rules_.by_batch) return flow(now);
  switch (state_) {
    case State::kResting:
      return rest(now);
    case State::kProducing:
      return produce();
    case State::kReplacing:
      return replace();
  }
  return Turn::kNothing;
}

Turn Producer::rest(const FlowProgress& now) {
  if (held_ || has_batch_) return Turn::kNothing;
  if (num_to_draw(rules_, rollout_.groups(), now) < rules_.batch_groups) return Turn::kNothing;
  if (rollout_.draw(rules_.batch_groups, true) == 0) return Turn::kNothing;
  rounds_ = missing_ = 0;
  state_ = State::kProducing;
  return Turn::kWorked;
}

// Filters judge once nothing is undecided, so that arrival times decide nothing.
Turn Producer::produce() {
  if (rollout_.can_generate()) return rollout_.generate();
  if (!rollout_.decide()) return Turn::kNothing;
  missing_ += rollout_.commit().filtered;
  state_ = State::kReplacing;
  return Turn::kWorked;
}

Turn Producer::replace() {
  const int64_t limit = rollout_.max_rounds();
  if (missing_ > 0 && (limit == 0 || rounds_ < limit)) {
    if (const int64_t drawn = rollout_.draw(missing_, false); drawn > 0) {
      ++rounds_;
      missing_ -= drawn;
      state_ = State::kProducing;
      return Turn::kWorked;
    }
    if (!rollout_.source_ended()) return Turn::kNothing;
  }
  rollout_.end_batch(rounds_, missing_);
  has_batch_ = true;
  state_ = State::kResting;
  return Turn::kWorked;
}

// Groups that are judged give the consumer something to look at.
Turn Producer::flow(const FlowProgress& now) {
  rollout_.decide();
  const FlowJudged judged = rollout_.commit();
  if (judged.kept + judged.filtered > 0) return Turn::kWorked;
  const int64_t room = held_ ? 0 : num_to_draw(rules_, rollout_.groups(), now);
  if (room > 0 && rollout_.draw(room, false) > 0) return Turn::kWorked;
  return rollout_.can_generate() ? rollout_.generate() : Turn::kNothing;
}

bool Producer::empty() {
  if (makes_batch() || has_batch_) return false;
  const FlowGroups groups = rollout_.groups();
  return groups.unfinished.empty() && groups.complete.empty();
}

}  // namespace rl
