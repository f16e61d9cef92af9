// Where a caller and its helpers synchronise, through one atomic word: (epoch, open, active). A
// helper joins the current epoch only while the gate is open; the caller closes it once no task is
// left and waits for the helpers that joined. So a helper that is late or never comes does not
// delay a run that others finished. Invariant: when close() returns, no helper holds a pointer to
// the run.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/spin.h"
#include "device/cpu/task_run.h"

namespace rl {

class WorkGate {
 public:
  // Iterations of spin_pause() before a waiter gives up its core: about 50 us.
  static constexpr int kSpins = 2000;

  // For the caller: opens a run, and closes it once its tasks are taken.
  void open(TaskRun& run) {
    run_.store(&run, std::memory_order_relaxed);
    gate_.store((epoch() + 1) * kEpochOne | kOpen);
  }
  void close() {
    gate_.fetch_and(~kOpen);
    for (int i = 0; i < kSpins; ++i) {
      if ((gate_.load(std::memory_order_acquire) & kActiveMask) == 0) return;
      spin_pause();
    }
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return (gate_.load() & kActiveMask) == 0; });
  }

  // Runs opened so far.
  uint64_t epoch() const { return gate_.load() / kEpochOne; }
  // For a helper: joins the run of this epoch, if it is still open.
  void help(uint64_t epoch, int worker) {
    if (!join(epoch)) return;
    run_.load(std::memory_order_relaxed)->work(worker);
    leave();
  }

 private:
  static constexpr uint64_t kActiveMask = 0xffff, kOpen = 0x10000, kEpochOne = 0x20000;

  bool join(uint64_t epoch) {
    uint64_t gate = gate_.load();
    while (gate / kEpochOne == epoch && (gate & kOpen) != 0) {
      if (gate_.compare_exchange_weak(gate, gate + 1)) return true;
    }
    return false;
  }
  void leave() {
    const uint64_t before = gate_.fetch_sub(1);
    if ((before & kActiveMask) != 1 || (before & kOpen) != 0) return;
    const std::lock_guard lock(mutex_);
    done_.notify_one();
  }

  std::atomic<uint64_t> gate_{0};
  std::atomic<TaskRun*> run_{nullptr};
  std::mutex mutex_;
  std::condition_variable done_;
};

}  // namespace rl
