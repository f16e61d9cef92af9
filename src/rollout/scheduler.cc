// First come, first served, with the batch filled in three passes.
#include "rollout/scheduler.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace rl {

Scheduler::Scheduler(const SchedulerLimits& limits, BlockPool& pool)
    : limits_(limits), pool_(pool) {
  RL_CHECK(limits.max_num_seqs > 0 && limits.prefill_chunk >= 0);
  RL_CHECK(limits.max_num_batched_tokens >= limits.max_num_seqs);
  running_.reserve(static_cast<size_t>(limits.max_num_seqs));
  schedule_.rows.reserve(static_cast<size_t>(limits.max_num_seqs));
  schedule_.copies.reserve(static_cast<size_t>(limits.max_num_seqs));
}

void Scheduler::submit(std::unique_ptr<ActiveRequest> request) {
  waiting_.push_back(std::move(request));
}

const Schedule& Scheduler::next() {
  schedule_.rows.clear();
  schedule_.copies.clear();
  schedule_.decode_rows = schedule_.prefill_rows = 0;
  schedule_decodes();
  schedule_prefills();
  admit_waiting();
  RL_CHECK(!schedule_.rows.empty() || idle());
  return schedule_;
}

void Scheduler::schedule_decodes() {
  for (const auto& active : running_) {
    if (!active->forked) continue;
    for (uint32_t i = 0; i < active->sequences.size(); ++i) {
      if (active->sequences[i].finished) continue;
      add_rows(*active, i, 1);
      ++schedule_.decode_rows;
    }
  }
}

void Scheduler::schedule_prefills() {
  for (const auto& active : running_) {
    if (active->forked) continue;
    const int64_t rows = prefill_room(*active);
    if (rows == 0) return;
    add_rows(*active, 0, rows);
    schedule_.prefill_rows += rows;
  }
}

void Scheduler::admit_waiting() {
  while (!waiting_.empty() && schedule_.num_rows() < limits_.max_num_batched_tokens &&
         can_admit(waiting_.front()->request)) {
    ActiveRequest& active = *waiting_.front();
    start(active, pool_.block_size());
    active.reserved = blocks_needed(active.request, pool_.block_size());
    pool_.reserve(active.reserved);
    num_running_ += active.request.num_samples;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    const int64_t rows = prefill_room(active);
    add_rows(active, 0, rows);
    schedule_.prefill_rows += rows;
  }
}

bool Scheduler::can_admit(const Request& request) const {
  return num_running_ + request.num_samples <= limits_.max_num_seqs &&
         pool_.can_reserve(blocks_needed(request, pool_.block_size()));
}

int64_t Scheduler::prefill_room(const ActiveRequest& active) const {
  const int64_t left = active.prompt_tokens() - active.sequences.front().computed;
  const int64_t room = limits_.max_num_batched_tokens - schedule_.num_rows();
  const int64_t chunk = limits_.prefill_chunk > 0 ? limits_.prefill_chunk : left;
  return std::min({left, room, chunk});
}

void Scheduler::add_rows(ActiveRequest& active, uint32_t index, int64_t rows) {
  Sequence& sequence = active.sequences[index];
  BlockCopy copy;
  if (make_writable(pool_, active, sequence, sequence.computed + rows, copy)) {
    schedule_.copies.push_back(copy);
  }
  schedule_.rows.push_back({&active, index, static_cast<int32_t>(rows)});
}

void Scheduler::advance() {
  for (const ScheduledRows& r : schedule_.rows) {
    Sequence& sequence = r.sequence();
    sequence.computed += r.rows;
    ActiveRequest& active = *r.request;
    if (!active.forked && sequence.computed == active.prompt_tokens()) fork(pool_, active);
  }
}

void Scheduler::finish(ActiveRequest& active, Sequence& sequence) {
  rl::finish(pool_, active, sequence);
  --num_running_;
}

void Scheduler::drop_finished() {
  std::erase_if(running_, [](const auto& active) { return all_finished(*active); });
}

std::deque<std::unique_ptr<ActiveRequest>> Scheduler::take_waiting() {
  return std::exchange(waiting_, {});
}

int64_t Scheduler::num_waiting() const {
  int64_t samples = 0;
  for (const auto& active : waiting_) samples += active->request.num_samples;
  return samples;
}

}  // namespace rl
