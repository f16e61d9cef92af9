// The queue of events that a host pulls. Unbounded, any number of producers and consumers. Its
// eventfd is written at every enqueue, interrupt and close, so edge-triggered waiting is safe, and
// drained whenever pop finds nothing; after close it stays readable. During a burst of events, pop
// spins for the next one before it sleeps, because waking a sleeping thread takes longer.
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
  explicit Event(int32_t kind, uint64_t source = 0) : source(source), kind_(kind) {}
  virtual ~Event() = default;
  int32_t kind() const { return kind_; }
  // Called once, as the event leaves its queue, before its reader has it.
  virtual void leave_queue() noexcept {}

  const uint64_t source;  // the number that the host gave the sender; 0 for none

 private:
  const int32_t kind_;
};

class EventQueue {
 public:
  EventQueue();  // kResourceExhausted if no file descriptor is left
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Returns false, and drops the event, if the queue is closed.
  bool push(std::shared_ptr<Event> event);

  struct Popped {
    Code status;  // kOk, kTimeout, kInterrupted, or kDone: closed and empty, permanently
    std::shared_ptr<Event> event;
  };
  // timeout_ns 0 polls, a negative value waits indefinitely.
  Popped pop(int64_t timeout_ns);

  // Makes one pop, running or next, return kInterrupted, even if events are waiting.
  void interrupt();
  // No further event is accepted; queued ones can still be popped.
  void close();

  size_t size() const;
  // For the host's poll or epoll; the host must not read or close it.
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
  int64_t pushed_ns_ = 0;  // when the newest event was pushed
  bool burst_ = false;     // whether that was soon after the one before it
  std::atomic<uint64_t> changes_{0};
  int fd_;
};

}  // namespace rl
