// A yield moves the first lease that has begun to their end. Yielding and ending allocate nothing.
#include "pipeline/session/compute_lease.h"

#include <algorithm>
#include <chrono>

#include "core/deadline.h"
#include "pipeline/session/runtime.h"

namespace rl {

void ComputeQueue::yield() {
  std::unique_lock lock(mutex_);
  if (begun_.size() < 2) return;
  const ComputeLease* const own = begun_.front();
  std::ranges::rotate(begun_, begun_.begin() + 1);
  changed_.notify_all();
  changed_.wait(lock, [&] { return begun_.front() == own; });
}

void ComputeQueue::note_given_up() {
  const std::lock_guard lock(mutex_);
  ++num_changes_;
  changed_.notify_all();
}

uint64_t ComputeQueue::num_changes() const {
  const std::lock_guard lock(mutex_);
  return num_changes_;
}

void ComputeQueue::await_change(uint64_t seen) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(1), [&] { return num_changes_ != seen; });
}

int64_t ComputeQueue::num_waiting() const {
  const std::lock_guard lock(mutex_);
  const size_t turns = begun_.empty() ? 0 : begun_.size() - 1;
  return static_cast<int64_t>(turns + waiting_.size());
}

bool ComputeQueue::can_begin(const ComputeLease& lease) const {
  return std::ranges::all_of(begun_, [&](const ComputeLease* other) {
    const bool both_share =
        lease.sharing_ == ComputeSharing::kInTurn && other->sharing_ == ComputeSharing::kInTurn;
    return both_share && (lease.changes_ == nullptr || lease.changes_ != other->changes_);
  });
}

void ComputeQueue::begin_waiting() {
  while (!waiting_.empty() && can_begin(*waiting_.front())) {
    ComputeLease* const next = waiting_.front();
    waiting_.erase(waiting_.begin());
    begun_.push_back(next);
    next->begun_ = true;
  }
}

ComputeLease::ComputeLease(Runtime& runtime, const char* what, ComputeSharing sharing,
                           const void* changes, const ComputeWait& wait)
    : queue_(runtime.compute_queue()), what_(what), sharing_(sharing), changes_(changes) {
  const int64_t wait_ns = std::min(wait.longest_ns, runtime.busy_timeout_ns());
  const auto given_up = [&] { return wait.given_up != nullptr && *wait.given_up; };
  std::unique_lock lock(queue_.mutex_);
  queue_.begun_.reserve(queue_.begun_.size() + queue_.waiting_.size() + 1);
  queue_.waiting_.push_back(this);
  queue_.begin_waiting();
  wait_until_ready(queue_.changed_, lock, wait_ns, [&] { return begun_ || given_up(); });
  if (!begun_) {
    const bool own_limit = wait_ns < runtime.busy_timeout_ns();
    give_up(given_up() ? Code::kCancelled : own_limit ? Code::kTimeout : Code::kBusy, wait_ns);
  }
  queue_.changed_.wait(lock, [&] { return queue_.begun_.front() == this; });
}

// Those behind may have waited for this one alone.
void ComputeLease::give_up(Code code, int64_t waited_ns) {
  const char* const other = queue_.begun_.front()->what_;
  std::erase(queue_.waiting_, this);
  queue_.begin_waiting();
  queue_.changed_.notify_all();
  const std::string waited =
      waited_ns == 0 || code == Code::kCancelled ? "" : str(" after waiting ", waited_ns, " ns");
  throw Error(code, str(what_, " cannot compute now: the runtime is busy with ", other, waited));
}

ComputeLease::~ComputeLease() {
  const std::lock_guard lock(queue_.mutex_);
  ++queue_.num_changes_;
  queue_.begun_.erase(queue_.begun_.begin());
  queue_.begin_waiting();
  queue_.changed_.notify_all();
}

}  // namespace rl
