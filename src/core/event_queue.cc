// The eventfd is written and drained under the lock, so it can never be left unreadable while an
// event waits.
#include "core/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/deadline.h"

namespace rl {

EventQueue::EventQueue() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ >= 0) return;
  const int code = errno;
  throw Error(Code::kResourceExhausted, str("cannot make an eventfd: ", std::strerror(code)))
      .with_system_code(code);
}

EventQueue::~EventQueue() { ::close(fd_); }

void EventQueue::signal() {
  const uint64_t one = 1;
  // The write fails only when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void EventQueue::drain() {
  uint64_t count;
  // Fails when there is nothing to drain.
  [[maybe_unused]] const ssize_t taken = ::read(fd_, &count, sizeof count);
}

bool EventQueue::push(std::shared_ptr<Event> event) {
  RL_CHECK(event != nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    events_.push_back(std::move(event));
    signal();
  }
  changed_.notify_one();
  return true;
}

EventQueue::Popped EventQueue::pop(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return interrupted_ || !events_.empty() || closed_; };
  if (!wait_until_ready(changed_, lock, timeout_ns, ready)) {
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
