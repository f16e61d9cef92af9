// Core count and the TBB executor. A step is many short runs, and TBB takes most of a microsecond
// to dispatch one; so a helper lingers at the gate for the next run before it returns to TBB.
#include "device/cpu/executors.h"

#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/float_mode.h"
#include "core/signals.h"
#include "device/cpu/work_gate.h"

namespace rl {

int usable_cores() { return std::max(1, CpuMask::of_this_thread().count()); }

namespace {

class MaskSignals final : public tbb::task_scheduler_observer {
 public:
  explicit MaskSignals(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) {
    observe(true);
  }
  ~MaskSignals() override { observe(false); }
  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) mask_all_signals();
  }
};

class TbbExecutor final : public Executor {
 public:
  TbbExecutor(int threads, const CpuList& cpus)
      : threads_(threads), cpus_(cpus), ranges_(threads), arena_(threads, 1), observer_(arena_) {
    // Workers start while every signal is blocked here, so they inherit the mask from their first
    // instruction.
    const ScopedSignalMask mask;
    parallel_for(threads_, [](int64_t, int) {});
  }
  ~TbbExecutor() noexcept override {
    stopping_.store(true);
    arena_.execute([&] { helpers_.wait(); });
  }

  int num_threads() const override { return threads_; }

  // The caller is worker 0 and stays outside the arena, which reserves its first slot for it.
  void parallel_for(int64_t count, FunctionRef<void(int64_t, int)> task) override {
    const CallerGuard guard(busy_);
    TaskRun run(count, task, ranges_);
    const int helpers = static_cast<int>(std::min<int64_t>(threads_, count)) - 1;
    if (helpers > 0) {
      gate_.open(run);
      call_helpers(helpers);
    }
    run.work(0);
    if (helpers > 0) gate_.close();
    run.rethrow();
  }

 private:
  // A helper about to leave either sees the new run or is no longer counted. If no helper can be
  // started, for lack of memory, the caller works alone: the run is open already.
  void call_helpers(int wanted) noexcept {
    while (called_.load() < wanted) {
      called_.fetch_add(1);
      try {
        arena_.enqueue(helpers_.defer([this] { linger(); }));
      } catch (...) {
        called_.fetch_sub(1);
        return;
      }
    }
  }

  // TBB's threads may predate this library's use of them, and belong to the process: they are bound
  // only while they help.
  void linger() {
    const ScopedFloatMode mode;
    const ScopedCpus bound(cpus_);
    const int worker = tbb::this_task_arena::current_thread_index();
    for (uint64_t seen = 0; help_until_idle(seen, worker);) called_.fetch_add(1);
  }

  // On return the helper is no longer counted; true if a run began meanwhile.
  bool help_until_idle(uint64_t& seen, int worker) {
    for (int i = 0; i < WorkGate::kSpins && !stopping_.load(std::memory_order_relaxed); ++i) {
      const uint64_t epoch = gate_.epoch();
      if (epoch != seen) {
        seen = epoch;
        gate_.help(epoch, worker);
        i = 0;
      }
      spin_pause();
    }
    called_.fetch_sub(1);
    return !stopping_.load() && gate_.epoch() != seen;
  }

  const int threads_;
  const CpuList cpus_;
  std::vector<TaskRange> ranges_;  // of the current run, one per worker
  tbb::task_arena arena_;
  MaskSignals observer_;
  tbb::task_group helpers_;
  WorkGate gate_;
  std::atomic<int> called_{0};  // helpers requested and not yet gone
  std::atomic<bool> stopping_{false};
  std::atomic<bool> busy_{false};
};

}  // namespace

int checked_threads(int threads, const CpuList& cpus) {
  const int cores = cpus.empty() ? usable_cores() : cpus.count();
  if (threads >= 0 && threads <= cores) return threads == 0 ? cores : threads;
  throw Error(
      Code::kOutOfRange,
      cpus.empty()
          ? str("runtime.threads is ", threads, " but this process may use only ", cores, " cores")
          : str("runtime.threads is ", threads, " but runtime.cpus has only ", cores, " CPUs"))
      .with_key("runtime.threads")
      .with_expected(str("0..", cores));
}

std::unique_ptr<Executor> make_tbb_executor(int threads, const CpuList& cpus) {
  return std::make_unique<TbbExecutor>(checked_threads(threads), cpus);
}

std::unique_ptr<Executor> make_default_executor(int threads, const CpuList& cpus) {
  const int checked = checked_threads(threads, cpus);
#if defined(__SANITIZE_THREAD__)
  return make_thread_executor(checked, cpus);
#else
  return make_tbb_executor(checked, cpus);
#endif
}

}  // namespace rl
