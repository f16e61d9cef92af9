// How far rollout may run ahead of training, as functions of counts alone. Time is counted in
// steps: a group is as old as the number of steps that were done when its prompt was drawn.
#pragma once
#include <cstdint>
#include <vector>

namespace rl {

// What options set.
struct FlowRules {
  int64_t batch_groups = 1;     // of a step
  int64_t max_staleness = 0;    // most steps that may end between the draw of a group and its own
  int64_t queue_batches = 0;    // complete batches that may wait for the trainer
  int64_t surplus_groups = 0;   // that may be drawn beyond these
  int64_t max_off_policy = -1;  // a group in generation that lives through more steps is cancelled
  // Pieces of work in a row of each machine while both have some: forwards, micro-batches.
  int64_t rollout_turns = 1, train_turns = 1;
  // While a step trains nothing is drawn or judged, and ranks that train on different micro-batches
  // of it need not meet between them. Of runs that generate nothing.
  bool rests_while_training = false;
  // The groups of a batch are drawn, decided and filtered together, and nothing is published
  // meanwhile. False: each group goes its own way.
  bool by_batch = true;
};

// The groups of a run that no step has taken, each by the steps done at its draw, in order.
struct FlowGroups {
  std::vector<int64_t> unfinished;  // being generated, or waiting for scores
  std::vector<int64_t> complete;    // scored and kept
};

// What became of groups that were scored.
struct FlowJudged {
  int64_t kept = 0, filtered = 0;
};

// Where training is.
struct FlowProgress {
  int64_t steps_done = 0;
  int64_t steps_left = -1;  // until the run ends, with the one in progress; -1: no limit
  bool training = false;    // a batch was taken, and its step is not done
};

// How many groups may be drawn now. Whoever obeys it never has a group that is_batch_ready() would
// let grow older than max_staleness.
int64_t num_to_draw(const FlowRules& rules, const FlowGroups& groups, const FlowProgress& now);

// Whether the next step may take the oldest complete groups. A group that would otherwise become
// too old is waited for, so that no sample is thrown away for having been slow. Of runs by_batch
// the producer says it.
bool is_batch_ready(const FlowRules& rules, const FlowGroups& groups, int64_t steps_done);

}  // namespace rl
