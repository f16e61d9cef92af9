// What a buffer tells the host through an event queue: that complete groups wait, and which groups
// were removed and why. At most one event of waiting groups is unread; after it was read, the next
// group that becomes complete sends another. Called under the buffer's lock, and thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

#include "buffer/experience_buffer.h"
#include "pipeline/session/event_sender.h"

namespace rl {

class BufferEvents final : public BufferObserver {
 public:
  // Events go there from now on, with this number; null: nowhere.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source);

  void changed(int64_t whole_groups, bool more) noexcept override;
  void removed(const Sample& of, DropReason reason) noexcept override;

 private:
  bool send_groups() noexcept;

  std::mutex mutex_;
  std::shared_ptr<EventQueue> queue_;
  uint64_t source_ = 0;
  std::shared_ptr<GroupsEvent::State> state_;  // of queue_
  bool owed_ = false;                          // an event for which there was no memory
  EventSender drops_;
};

}  // namespace rl
