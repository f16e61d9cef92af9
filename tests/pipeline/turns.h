// Meets the moments between two turns on a runtime: a clock that calls back on one thread, so that
// a test decides who waits while that thread computes, and a record of whose turn it was.
#pragma once
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/clock.h"
#include "core/trace.h"

namespace rl::testing {

// False if it has not become true within a minute.
inline bool wait_until_true(const std::function<bool()>& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// The hook runs whenever the thread that set it reads the clock: in a training step, before and
// after every phase. Set and cleared while no other thread reads the clock.
class HookedClock final : public Clock {
 public:
  int64_t now_ns() const override {
    if (std::this_thread::get_id() == thread_) hook_();
    return real_clock().now_ns();
  }
  int64_t unix_ns() const override { return real_clock().unix_ns(); }

  void set_hook(std::function<void()> hook) {
    hook_ = std::move(hook);
    thread_ = std::this_thread::get_id();
  }
  void clear_hook() { thread_ = {}; }

 private:
  std::thread::id thread_;
  std::function<void()> hook_;
};

// One letter for each micro-batch trained (T) and each engine step (E), in the order in which they
// ended.
class TurnLog final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    const std::string_view name = span.name;
    const bool trained = name == "train.backward";
    if (!trained && name != "engine.prefill" && name != "engine.decode") return;
    const std::lock_guard lock(mutex_);
    turns_ += trained ? 'T' : 'E';
  }
  void counter(const char*, uint32_t, int64_t, double) noexcept override {}
  void lane_name(uint32_t, std::string_view) noexcept override {}

  std::string turns() const {
    const std::lock_guard lock(mutex_);
    return turns_;
  }

 private:
  mutable std::mutex mutex_;
  std::string turns_;
};

}  // namespace rl::testing
