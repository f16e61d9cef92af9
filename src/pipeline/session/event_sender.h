// Sends the events of an object of a host's own loop to the queue that the host gave it. Nothing
// grows without bound if nobody reads: while kMostUnread of its events are unread, further ones are
// left out, and the next one that is sent has their number. Sending never fails: what memory does
// not suffice for is left out too. Thread-safe, and a leaf: it calls nothing but the queue.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "pipeline/session/event_kinds.h"

namespace rl {

class EventSender {
 public:
  static constexpr int64_t kMostUnread = 1024;

  // Events go there from now on, with this number; null: nowhere.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source);

  // Sends an event of a Kind whose fields fill(event) sets.
  template <typename Kind, typename Fill>
  void send(Fill&& fill) noexcept {
    const std::lock_guard lock(mutex_);
    if (queue_ == nullptr) return;
    try {
      if (*unread_ < kMostUnread) {
        auto event = std::make_shared<Kind>(source_);
        fill(*event);
        return deliver(std::move(event));
      }
    } catch (const std::exception&) {
      // Out of memory: left out.
    }
    ++num_left_out_;
  }

 private:
  void deliver(std::shared_ptr<LimitedEvent> event);

  std::mutex mutex_;
  std::shared_ptr<EventQueue> queue_;
  uint64_t source_ = 0;
  std::shared_ptr<std::atomic<int64_t>> unread_;  // in queue_
  uint64_t num_left_out_ = 0;                     // since the last one that was sent
};

}  // namespace rl
