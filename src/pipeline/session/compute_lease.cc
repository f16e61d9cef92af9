// A yield moves the first lease of the queue to its end. It allocates nothing.
#include "pipeline/session/compute_lease.h"

#include <algorithm>

#include "core/error.h"
#include "pipeline/session/runtime.h"

namespace rl {

void ComputeQueue::yield() {
  std::unique_lock lock(mutex_);
  if (leases_.size() < 2) return;
  const ComputeLease* const own = leases_.front();
  std::ranges::rotate(leases_, leases_.begin() + 1);
  changed_.notify_all();
  changed_.wait(lock, [&] { return leases_.front() == own; });
}

int64_t ComputeQueue::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return leases_.empty() ? 0 : static_cast<int64_t>(leases_.size()) - 1;
}

ComputeLease::ComputeLease(Runtime& runtime, const char* what, ComputeSharing sharing)
    : queue_(runtime.compute_queue()), what_(what), sharing_(sharing) {
  std::unique_lock lock(queue_.mutex_);
  std::vector<const ComputeLease*>& leases = queue_.leases_;
  if (!leases.empty()) {
    const ComputeLease& first = *leases.front();
    if (sharing == ComputeSharing::kAlone || first.sharing_ == ComputeSharing::kAlone) {
      throw Error(Code::kBusy,
                  str(what, " cannot compute now: the runtime is busy with ", first.what_));
    }
  }
  leases.push_back(this);
  queue_.changed_.wait(lock, [&] { return leases.front() == this; });
}

ComputeLease::~ComputeLease() {
  const std::lock_guard lock(queue_.mutex_);
  queue_.leases_.erase(queue_.leases_.begin());
  queue_.changed_.notify_all();
}

}  // namespace rl
