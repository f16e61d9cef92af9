// Turns a schedule into the arrays of one forward, and lists which tokens are to be sampled from
// which of its rows. Invariant: a prompt's leader and its followers share one logits row.
#pragma once
#include <span>
#include <vector>

#include "model/transformer.h"
#include "rollout/scheduler.h"

namespace rl {

// One token to sample for a sample.
struct SampleTarget {
  Sequence* sequence;
  int32_t logits_index;  // into BatchBuilder::logits_rows()
};

class BatchBuilder {
 public:
  BatchBuilder(int64_t max_rows, int64_t max_sequences);

  // Valid until the next call; block tables point into the sequences.
  void build(const StepSchedule& schedule);
  // No sequence of a schedule depends on rows that another one computes in it: shared blocks were
  // written in earlier steps.
  ForwardBatch batch() const {
    return {.ids = ids_, .sequences = sequences_, .decode = ids_.size() == sequences_.size()};
  }
  std::span<const int32_t> logits_rows() const { return logits_rows_; }
  // In order of logits_index.
  std::span<const SampleTarget> sample_targets() const { return sample_targets_; }

 private:
  void add(const ScheduledRows& rows);
  void add_sample_targets(const ScheduledRows& rows);

  std::vector<int32_t> ids_;
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> logits_rows_;
  std::vector<SampleTarget> sample_targets_;
};

}  // namespace rl
