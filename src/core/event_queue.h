// The queue of events that a host pulls. Unbounded, any number of producers and consumers. Its
// eventfd is written at every enqueue, interrupt and close, so edge-triggered waiting is safe, and
// drained whenever pop finds nothing; after close it stays readable. While events follow one
// another closely, a pop spins for the next one before it sleeps: a thread asleep takes longer to
// wake.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "core/error.h"

namespace rl {

class Event {
 public:
  explicit Event(int32_t kind) : kind_(kind) {}
  virtual ~Event() = default;
  int32_t kind() const { return kind_; }

 private:
  const int32_t kind_;
};

class EventQueue {
 public:
  EventQueue();  // kResourceExhausted when the system has no descriptor left
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // False, and the event is dropped, when the queue is closed.
  bool push(std::shared_ptr<Event> event);

  struct Popped {
    Code status;  // kOk, kTimeout, kInterrupted, or kDone: closed and empty, for ever
    std::shared_ptr<Event> event;
  };
  // timeout_ns 0 polls, a negative one waits for ever.
  Popped pop(int64_t timeout_ns);

  // Makes one pop, running or next, return kInterrupted, even when events are waiting.
  void interrupt();
  // No event is accepted any more; those in the queue can still be popped.
  void close();

  size_t size() const;
  // For poll and epoll by the host, which never reads or closes it.
  int fd() const { return fd_; }

 private:
  void signal();
  void drain();
  bool ready() const { return interrupted_ || !events_.empty() || closed_; }
  int64_t spin(std::unique_lock<std::mutex>& lock, int64_t timeout_ns);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Event>> events_;
  bool interrupted_ = false;
  bool closed_ = false;
  int64_t pushed_ns_ = 0;  // when the newest event came
  bool burst_ = false;     // and soon after the one before it
  std::atomic<uint64_t> changes_{0};
  int fd_;
};

}  // namespace rl
