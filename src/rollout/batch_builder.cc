// Rows are in schedule order; a sequence's logits row is its last one.
#include "rollout/batch_builder.h"

namespace rl {

BatchBuilder::BatchBuilder(int64_t max_rows, int64_t max_sequences) {
  ids_.reserve(static_cast<size_t>(max_rows));
  sequences_.reserve(static_cast<size_t>(max_sequences));
  logits_rows_.reserve(static_cast<size_t>(max_sequences));
  sample_targets_.reserve(static_cast<size_t>(max_sequences));
}

void BatchBuilder::build(const StepSchedule& schedule) {
  ids_.clear();
  sequences_.clear();
  logits_rows_.clear();
  sample_targets_.clear();
  for (const ScheduledRows& rows : schedule.rows) {
    add(rows);
    if (rows.needs_logits()) add_sample_targets(rows);
  }
}

void BatchBuilder::add(const ScheduledRows& rows) {
  const Sequence& s = *rows.sequence;
  sequences_.push_back({static_cast<int32_t>(ids_.size()), rows.rows,
                        static_cast<int32_t>(s.computed), s.blocks.data()});
  const auto first = s.sample->ids.begin() + s.computed;
  ids_.insert(ids_.end(), first, first + rows.rows);
}

void BatchBuilder::add_sample_targets(const ScheduledRows& rows) {
  const auto logits_index = static_cast<int32_t>(logits_rows_.size());
  logits_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  sample_targets_.push_back({rows.sequence, logits_index});
  if (!rows.sequence->is_leader()) return;
  for (Sequence& s : rows.sequence->request->sequences) {
    if (s.follows) sample_targets_.push_back({&s, logits_index});
  }
}

}  // namespace rl
