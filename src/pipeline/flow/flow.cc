#include "pipeline/flow/flow.h"

namespace rl {
namespace {

// So many pieces of work, or fewer if there are no more. The end that one of them finds counts.
template <typename Advance>
Turn in_a_row(int64_t turns, const Advance& advance) {
  const Turn first = advance();
  Turn last = first;
  for (int64_t i = 1; i < turns && last == Turn::kWorked; ++i) last = advance();
  return last == Turn::kEnd ? last : first;
}

}  // namespace

void Flow::run() {
  while (turn()) {
  }
}

// Changes are counted before anybody looks, so that none is missed between the look and the wait.
bool Flow::turn() {
  const uint64_t seen = ports_.waits.num_changes();
  const Turn trained = in_a_row(rules_.train_turns, [&] { return consumer_.advance(ending_); });
  if (trained == Turn::kEnd) return false;
  const auto produce = [&] { return producer_.advance(ports_.update.progress()); };
  const int64_t turns = trained == Turn::kWorked ? rules_.rollout_turns : 1;
  const bool rests = ending_ || (rules_.rests_while_training && consumer_.training());
  const Turn produced = rests ? Turn::kNothing : in_a_row(turns, produce);
  ending_ = ending_ || produced == Turn::kEnd;
  if (!ending_ && trained == Turn::kNothing && produced == Turn::kNothing) {
    if (consumer_.starves()) return false;
    ending_ = ports_.waits.wait(seen) == Turn::kEnd;
  }
  return !ending_ || consumer_.training();
}

}  // namespace rl
