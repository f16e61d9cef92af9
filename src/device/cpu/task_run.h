// Shared by both executors: one run over tasks, and the guard against a second caller. Each
// worker's range sits on its own cache line, so taking a task is contention-free; a worker whose
// range is empty steals the last task of another's. Invariant: after an exception the remaining
// tasks are skipped, never half run.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <span>

#include "core/error.h"
#include "core/executor.h"

namespace rl {

// The rest of a worker's range.
class alignas(128) TaskRange {
 public:
  static constexpr int64_t kNone = -1;
  static constexpr int64_t kMaxTasks = int64_t{1} << 31;

  void set(const TaskShare& share) { range_.store(pack(share), std::memory_order_relaxed); }
  int64_t take_first() {
    const TaskShare taken = take([](TaskShare left) {
      return TaskShare{left.begin + 1, left.end};
    });
    return taken.begin < taken.end ? taken.begin : kNone;
  }
  int64_t take_last() {
    const TaskShare taken = take([](TaskShare left) {
      return TaskShare{left.begin, left.end - 1};
    });
    return taken.begin < taken.end ? taken.end - 1 : kNone;
  }

 private:
  static uint64_t pack(const TaskShare& s) {
    return static_cast<uint64_t>(s.end) << 32 | static_cast<uint64_t>(s.begin);
  }
  static TaskShare unpack(uint64_t word) {
    return {static_cast<int64_t>(word & 0xffffffff), static_cast<int64_t>(word >> 32)};
  }

  // Shrinks the rest; returns what it was. Ranges only shrink during a run, so a word never recurs
  // (no ABA).
  template <typename Shrink>
  TaskShare take(const Shrink& shrink) {
    uint64_t word = range_.load(std::memory_order_relaxed);
    TaskShare left = unpack(word);
    while (left.begin < left.end &&
           !range_.compare_exchange_weak(word, pack(shrink(left)), std::memory_order_relaxed)) {
      left = unpack(word);
    }
    return left;
  }

  std::atomic<uint64_t> range_{0};
};

class TaskRun {
 public:
  // ranges: one per worker, used by this run alone until it ends.
  TaskRun(int64_t count, FunctionRef<void(int64_t, int)> task, std::span<TaskRange> ranges)
      : task_(task), ranges_(ranges) {
    RL_CHECK(count >= 0 && count < TaskRange::kMaxTasks);
    const int64_t workers = static_cast<int64_t>(ranges.size());
    for (int64_t w = 0; w < workers; ++w) ranges_[w].set(task_share(count, w, workers));
  }

  // Takes tasks until none is left. Every participating thread calls it.
  void work(int worker) {
    const auto workers = static_cast<int64_t>(ranges_.size());
    for (int64_t i; (i = ranges_[worker].take_first()) != TaskRange::kNone;) run(i, worker);
    for (int64_t next = worker + 1; next < worker + workers; ++next) {
      TaskRange& other = ranges_[next % workers];
      for (int64_t i; (i = other.take_last()) != TaskRange::kNone;) run(i, worker);
    }
  }

  // Called once all threads are done.
  void rethrow() {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  void run(int64_t task, int worker) {
    try {
      task_(task, worker);
    } catch (...) {
      keep(std::current_exception());
      for (TaskRange& range : ranges_) range.set({0, 0});
    }
  }

  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::move(error);
  }

  const FunctionRef<void(int64_t, int)> task_;
  const std::span<TaskRange> ranges_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// An executor has one caller at a time and is not re-entrant; a violation is a bug in librl.
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
