// An event counts as unread before it is in the queue, because its reader may be faster than push.
#include "pipeline/session/event_sender.h"

namespace rl {

void EventSender::set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
  auto unread = std::make_shared<std::atomic<int64_t>>(0);
  const std::lock_guard lock(mutex_);
  queue_.swap(queue);
  unread_ = std::move(unread);
  source_ = source;
  num_left_out_ = 0;
}

void EventSender::deliver(std::shared_ptr<LimitedEvent> event) {
  event->unread = unread_;
  event->num_left_out = num_left_out_;
  ++*unread_;
  bool sent = false;
  try {
    sent = queue_->push(std::move(event));
  } catch (...) {
    --*unread_;
    throw;
  }
  if (sent) {
    num_left_out_ = 0;
  } else {
    --*unread_;  // the queue is closed
  }
}

}  // namespace rl
