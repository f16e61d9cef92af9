// The scheduler keeps its own counts; what they grew by since the last look is added to both
// records.
#include "rollout/engine_meter.h"

#include <algorithm>

namespace rl {

EngineStats& operator+=(EngineStats& total, const EngineStats& one) {
  constexpr int64_t EngineStats::*kSums[] = {
      &EngineStats::running,        &EngineStats::waiting,          &EngineStats::blocks_in_use,
      &EngineStats::blocks_total,   &EngineStats::blocks_peak,      &EngineStats::busy_ns,
      &EngineStats::forwards,       &EngineStats::prefill_tokens,   &EngineStats::decode_tokens,
      &EngineStats::prefill_ns,     &EngineStats::decode_ns,        &EngineStats::generated_tokens,
      &EngineStats::admitted,       &EngineStats::finished,         &EngineStats::aborted,
      &EngineStats::nonfinite,      &EngineStats::queue_ns,         &EngineStats::first_tokens,
      &EngineStats::first_token_ns, &EngineStats::preemptions,      &EngineStats::swapped_blocks,
      &EngineStats::cached_tokens,  &EngineStats::looked_up_tokens, &EngineStats::model_ns,
      &EngineStats::started,        &EngineStats::mixed_kv_tokens,
  };
  for (const auto field : kSums) total.*field += one.*field;
  total.longest_queue_ns = std::max(total.longest_queue_ns, one.longest_queue_ns);
  total.longest_first_token_ns = std::max(total.longest_first_token_ns, one.longest_first_token_ns);
  return total;
}

void EngineMeter::begin_work(int64_t now_ns) {
  if (busy_) return;
  busy_ = true;
  charged_ns_ = now_ns;
}

void EngineMeter::admitted(int64_t waited_ns) {
  count([=](EngineStats& s) {
    ++s.admitted;
    s.queue_ns += waited_ns;
    s.longest_queue_ns = std::max(s.longest_queue_ns, waited_ns);
  });
}

void EngineMeter::sampled_first_token(int64_t waited_ns) {
  count([=](EngineStats& s) {
    ++s.first_tokens;
    s.first_token_ns += waited_ns;
    s.longest_first_token_ns = std::max(s.longest_first_token_ns, waited_ns);
  });
}

void EngineMeter::sampled_token(bool mixed_kv) {
  count([=](EngineStats& s) {
    ++s.generated_tokens;
    s.mixed_kv_tokens += mixed_kv;
  });
}

void EngineMeter::finished(bool aborted) {
  count([=](EngineStats& s) {
    ++s.finished;
    s.aborted += aborted;
  });
}

void EngineMeter::nonfinite() {
  count([](EngineStats& s) { ++s.nonfinite; });
}

void EngineMeter::used_blocks(int64_t blocks) {
  count([=](EngineStats& s) { s.blocks_peak = std::max(s.blocks_peak, blocks); });
}

void EngineMeter::forward(const StepSchedule& schedule, int64_t elapsed_ns) {
  count([&](EngineStats& s) {
    ++s.forwards;
    s.prefill_tokens += schedule.prefill_rows;
    s.decode_tokens += schedule.decode_rows;
    (schedule.prefill_rows > 0 ? s.prefill_ns : s.decode_ns) += elapsed_ns;
  });
}

void EngineMeter::computed(int64_t elapsed_ns) {
  count([=](EngineStats& s) { s.model_ns += elapsed_ns; });
}

void EngineMeter::count_scheduled(const SchedulerCounts& now) {
  count([&](EngineStats& s) {
    s.preemptions += now.preemptions - seen_.preemptions;
    s.swapped_blocks += now.swapped_blocks - seen_.swapped_blocks;
    s.looked_up_tokens += now.looked_up_tokens - seen_.looked_up_tokens;
    s.cached_tokens += now.cached_tokens - seen_.cached_tokens;
  });
  seen_ = now;
}

void EngineMeter::charge(int64_t now_ns) {
  if (!busy_) return;
  const int64_t more = now_ns - charged_ns_;
  count([=](EngineStats& s) { s.busy_ns += more; });
  charged_ns_ = now_ns;
}

void EngineMeter::settle(const Scheduler& scheduler, const KvBlocks& blocks, int64_t now_ns) {
  count_scheduled(scheduler.counts());
  charge(now_ns);
  busy_ = !scheduler.nothing_runnable();
  if (interval_ns_ == 0 || current_.busy_ns < interval_ns_) return;
  last_ = current_;
  last_.running = scheduler.num_running();
  last_.waiting = scheduler.num_waiting();
  last_.started = scheduler.num_begun();
  last_.blocks_in_use = blocks.pool().num_used();
  last_.blocks_total = blocks.pool().num_blocks();
  current_ = {};
  closed_ = true;
  taken_ = false;
}

std::optional<EngineStats> EngineMeter::take_interval() {
  if (taken_) return std::nullopt;
  taken_ = true;
  return last_;
}

std::optional<EngineStats> EngineMeter::last_interval() const {
  return closed_ ? std::optional(last_) : std::nullopt;
}

}  // namespace rl
