// A result that arrives later. It is completed exactly once, with a value or an error; the first
// completion wins. Cancelling is a request: it sets a flag that the producer checks, and the
// producer still completes the future. Thread-safe; shared by std::shared_ptr.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/error.h"

namespace rl {

class Future {
 public:
  Future() = default;
  Future(const Future&) = delete;
  Future& operator=(const Future&) = delete;

  // Producer's side. Returns false, without effect, if it was already complete.
  bool complete(std::shared_ptr<void> value);
  bool fail(Error error);
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Consumer's side.
  void cancel() { cancelled_.store(true, std::memory_order_release); }
  bool is_complete() const;
  // True if it completed in time. timeout_ns 0 polls, a negative value waits indefinitely.
  bool wait(int64_t timeout_ns) const;
  // Returns the value or throws the error. kFailedPrecondition while it is not complete.
  std::shared_ptr<void> value() const;
  template <typename T>
  std::shared_ptr<T> value_as() const {
    return std::static_pointer_cast<T>(value());
  }

  // Index of a complete future, the lowest if several are; nullopt on timeout.
  static std::optional<size_t> wait_any(std::span<const std::shared_ptr<Future>> futures,
                                        int64_t timeout_ns);

 private:
  struct Waiter {
    std::mutex mutex;
    std::condition_variable condition;
    bool woken = false;
  };
  class Watch;
  bool finish(std::shared_ptr<void> value, std::optional<Error> error);
  void add(Waiter* waiter);
  void remove(Waiter* waiter);

  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  bool complete_ = false;
  std::shared_ptr<void> value_;
  std::optional<Error> error_;
  std::vector<Waiter*> waiters_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace rl
