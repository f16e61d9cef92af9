// What both executors share: one run over tasks handed out by a counter, the guard against a second
// caller, and signal masks. Invariant: after an exception the remaining tasks are skipped, never
// half run.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>

#include "core/error.h"
#include "core/executor.h"

namespace rl {

class TaskRun {
 public:
  TaskRun(int64_t count, FunctionRef<void(int64_t, int)> task) : count_(count), task_(task) {}

  // Takes tasks until none is left. Called by every thread that takes part.
  void work(int worker) {
    for (;;) {
      const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= count_) return;
      try {
        task_(i, worker);
      } catch (...) {
        keep(std::current_exception());
        next_.store(count_, std::memory_order_relaxed);
        return;
      }
    }
  }

  // Called once all threads are done.
  void rethrow() {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::move(error);
  }

  const int64_t count_;
  const FunctionRef<void(int64_t, int)> task_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

// An executor has one caller at a time and is not re-entrant; breaking that is a bug of librl.
class CallerGuard {
 public:
  explicit CallerGuard(std::atomic<bool>& busy) : busy_(busy) {
    const bool was_busy = busy_.exchange(true, std::memory_order_acquire);
    RL_CHECK(!was_busy);
  }
  ~CallerGuard() { busy_.store(false, std::memory_order_release); }
  CallerGuard(const CallerGuard&) = delete;
  CallerGuard& operator=(const CallerGuard&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace rl
