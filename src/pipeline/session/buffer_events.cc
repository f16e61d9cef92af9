// The number of groups is stored before the flag is looked at, and read after it was cleared: so
// either the unread event has the number, or another event is sent.
#include "pipeline/session/buffer_events.h"

#include <exception>
#include <utility>

namespace rl {

void BufferEvents::set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
  auto state = std::make_shared<GroupsEvent::State>();
  drops_.set_queue(queue, source);
  const std::lock_guard lock(mutex_);
  queue_.swap(queue);
  state_ = std::move(state);
  source_ = source;
  owed_ = false;
}

void BufferEvents::changed(int64_t whole_groups, bool more) noexcept {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return;
  state_->whole = whole_groups;
  if (!more && !owed_) return;
  if (state_->unread.exchange(true)) return;
  owed_ = !send_groups();
}

// False if there was no memory.
bool BufferEvents::send_groups() noexcept {
  try {
    if (!queue_->push(std::make_shared<GroupsEvent>(source_, state_))) state_->unread = false;
    return true;
  } catch (const std::exception&) {
    state_->unread = false;
    return false;
  }
}

void BufferEvents::removed(const Sample& of, DropReason reason) noexcept {
  drops_.send<GroupDroppedEvent>([&](GroupDroppedEvent& event) {
    event.purpose = of.purpose;
    event.ordinal = of.ordinal;
    event.data_row = of.data_row;
    event.reason = reason;
    event.message = reason == DropReason::kStale
                        ? "its tokens are older than buffer.max_staleness allows"
                        : "the host dropped it";
  });
}

}  // namespace rl
