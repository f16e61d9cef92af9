// Completion and waiting. Lock order: a future's mutex, then a waiter's.
#include "core/future.h"

#include <algorithm>

#include "core/deadline.h"

namespace rl {

bool Future::complete(std::shared_ptr<void> value) { return finish(std::move(value), {}); }
bool Future::fail(Error error) { return finish(nullptr, std::move(error)); }

bool Future::finish(std::shared_ptr<void> value, std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  if (complete_) return false;
  complete_ = true;
  value_ = std::move(value);
  error_ = std::move(error);
  done_.notify_all();
  for (Waiter* const waiter : waiters_) {
    const std::lock_guard waiter_lock(waiter->mutex);
    waiter->woken = true;
    waiter->condition.notify_one();
  }
  return true;
}

bool Future::is_complete() const {
  const std::lock_guard lock(mutex_);
  return complete_;
}

bool Future::wait(int64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  return wait_until_ready(done_, lock, timeout_ns, [&] { return complete_; });
}

std::shared_ptr<void> Future::value() const {
  const std::lock_guard lock(mutex_);
  if (!complete_) throw Error(Code::kFailedPrecondition, "the future is not complete");
  if (error_) throw *error_;
  return value_;
}

void Future::add(Waiter* waiter) {
  const std::lock_guard lock(mutex_);
  waiters_.push_back(waiter);
  if (!complete_) return;
  const std::lock_guard waiter_lock(waiter->mutex);
  waiter->woken = true;
}

void Future::remove(Waiter* waiter) {
  const std::lock_guard lock(mutex_);
  std::erase(waiters_, waiter);
}

// Registers a waiter with futures and removes it again on every path.
class Future::Watch {
 public:
  Watch(std::span<const std::shared_ptr<Future>> futures, Waiter& waiter)
      : futures_(futures), waiter_(waiter) {
    try {
      for (const auto& future : futures_) future->add(&waiter_);
    } catch (...) {
      leave();
      throw;
    }
  }
  ~Watch() { leave(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void leave() {
    for (const auto& future : futures_) future->remove(&waiter_);
  }
  const std::span<const std::shared_ptr<Future>> futures_;
  Waiter& waiter_;
};

std::optional<size_t> Future::wait_any(std::span<const std::shared_ptr<Future>> futures,
                                       int64_t timeout_ns) {
  if (futures.empty()) throw Error(Code::kInvalidArgument, "there are no futures to wait for");
  Waiter waiter;
  Watch watch(futures, waiter);
  {
    std::unique_lock lock(waiter.mutex);
    wait_until_ready(waiter.condition, lock, timeout_ns, [&] { return waiter.woken; });
  }
  const auto found = std::find_if(futures.begin(), futures.end(),
                                  [](const auto& future) { return future->is_complete(); });
  if (found == futures.end()) return std::nullopt;
  return static_cast<size_t>(found - futures.begin());
}

}  // namespace rl
