// The eventfd is written and drained under the lock, so it can never be left unreadable while an
// event waits.
#include "core/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/clock.h"
#include "core/deadline.h"
#include "core/spin.h"

namespace rl {
namespace {
constexpr int64_t kBurstNs = 100'000;  // longest gap between two events of a burst
}

EventQueue::EventQueue() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ >= 0) return;
  const int code = errno;
  throw Error(Code::kResourceExhausted, str("cannot create an eventfd: ", std::strerror(code)))
      .with_system_code(code);
}

EventQueue::~EventQueue() { ::close(fd_); }

// The change comes last: a pop that spins takes the lock as soon as it sees it, and would sleep on
// the lock for as long as the write takes.
void EventQueue::signal() {
  const uint64_t one = 1;
  // The write fails only if the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
  changes_.fetch_add(1, std::memory_order_release);
}

void EventQueue::drain() {
  uint64_t count;
  // Fails if there is nothing to drain.
  [[maybe_unused]] const ssize_t taken = ::read(fd_, &count, sizeof count);
}

bool EventQueue::push(std::shared_ptr<Event> event) {
  RL_CHECK(event != nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    events_.push_back(std::move(event));
    const int64_t before_ns = std::exchange(pushed_ns_, real_clock().now_ns());
    burst_ = pushed_ns_ - before_ns <= kBurstNs;
    signal();
  }
  changed_.notify_one();
  return true;
}

// Spins for a change as long as a burst may last. Returns the rest of the timeout.
int64_t EventQueue::spin(std::unique_lock<std::mutex>& lock, int64_t timeout_ns) {
  const uint64_t seen = changes_.load(std::memory_order_relaxed);
  const int64_t end_ns = pushed_ns_ + kBurstNs, start_ns = real_clock().now_ns();
  int64_t now_ns = start_ns;
  lock.unlock();
  while (now_ns < end_ns && changes_.load(std::memory_order_acquire) == seen) {
    spin_pause();
    now_ns = real_clock().now_ns();
  }
  lock.lock();
  return timeout_ns < 0 ? timeout_ns : std::max<int64_t>(0, timeout_ns - (now_ns - start_ns));
}

EventQueue::Popped EventQueue::pop(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const bool patient = timeout_ns < 0 || timeout_ns > kBurstNs;
  if (burst_ && patient && !ready()) timeout_ns = spin(lock, timeout_ns);
  if (!wait_until_ready(changed_, lock, timeout_ns, [&] { return ready(); })) {
    drain();
    return {Code::kTimeout, nullptr};
  }
  if (interrupted_) {
    interrupted_ = false;
    return {Code::kInterrupted, nullptr};
  }
  if (events_.empty()) return {Code::kDone, nullptr};
  std::shared_ptr<Event> event = std::move(events_.front());
  events_.pop_front();
  event->leave_queue();
  return {Code::kOk, std::move(event)};
}

void EventQueue::interrupt() {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    signal();
  }
  changed_.notify_all();
}

void EventQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    signal();
  }
  changed_.notify_all();
}

size_t EventQueue::size() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

}  // namespace rl
