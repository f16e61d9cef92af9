// Keeps the counts of an engine, since its construction and over the current interval. An interval
// is a stretch of busy time: idle time belongs to none. It ends with the first step that finds it
// at least interval_ns long, so it may be longer by a step.
// Invariants:
// 1. Every event counts in the total and in exactly one interval.
// 2. Nothing is allocated, and times are passed in: the meter has no clock.
#pragma once
#include <cstdint>
#include <optional>

#include "rollout/engine_stats.h"
#include "rollout/scheduler.h"

namespace rl {

class EngineMeter {
 public:
  // interval_ns 0: no intervals.
  explicit EngineMeter(int64_t interval_ns) : interval_ns_(interval_ns) {}

  // There is work from now on; no effect if there already was.
  void begin_work(int64_t now_ns);
  void admitted(int64_t waited_ns);
  void sampled_first_token(int64_t waited_ns);
  void sampled_token(bool mixed_kv);
  void finished(bool aborted);
  void nonfinite();
  void used_blocks(int64_t blocks);
  void forward(const StepSchedule& schedule, int64_t elapsed_ns);
  void computed(int64_t elapsed_ns);  // the model's part of a forward
  // The end of a step, or of all work; the current levels are read from scheduler and blocks.
  void settle(const Scheduler& scheduler, const KvBlocks& blocks, int64_t now_ns);

  const EngineStats& total() const { return total_; }
  void restart_peak(int64_t blocks_in_use) { total_.blocks_peak = blocks_in_use; }
  // The last whole interval, once.
  std::optional<EngineStats> take_interval();
  // The same without consuming it; nothing before the first interval ends.
  std::optional<EngineStats> last_interval() const;

 private:
  template <typename F>
  void count(F&& f) {
    f(total_);
    f(current_);
  }
  void count_scheduled(const SchedulerCounts& now);
  void charge(int64_t now_ns);

  const int64_t interval_ns_;
  EngineStats total_, current_, last_;
  SchedulerCounts seen_;
  int64_t charged_ns_ = 0;  // busy time is counted up to here
  bool busy_ = false, closed_ = false, taken_ = true;
};

}  // namespace rl
