// The right to compute on a runtime. One lease computes at a time. Leases that share do so in turn,
// first come, first served: a training step yields after each micro-batch, an engine takes a lease
// for each of its steps. Any other lease computes alone. A lease that cannot begin beside those
// that have begun waits behind them and behind all that came before it, for runtime.busy_timeout_ns
// at most. What one lease wrote, the next one sees. Whoever waits for a lease holds no lock that a
// call which does not compute needs, and no other lease.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "core/yield_point.h"

namespace rl {

class Runtime;
class ComputeLease;

enum class ComputeSharing : uint8_t {
  kAlone,  // begins when no other has begun, and none begins beside it
  kInTurn  // begins beside others that share and change something else, and waits for its turn
};

// The leases of a runtime. Invariant: those that have begun are none, one alone, or any number in
// turn, of which the first one computes; others wait only if some have begun.
class ComputeQueue final : public YieldPoint {
 public:
  // Called by the thread that computes. Lets those that have begun compute, one turn each, and
  // returns once the lease may compute again; at once if there are no others.
  void yield() override;
  // Called after the flag of a ComputeWait was set: ends the wait.
  void note_given_up();
  // Counts leases that have ended and waits that were given up.
  uint64_t num_changes() const;
  // For who could not begin: returns once the count is another one, or after a second.
  void await_change(uint64_t seen);
  // Leases that wait, for their turn or to begin.
  int64_t num_waiting() const;

 private:
  friend class ComputeLease;
  bool can_begin(const ComputeLease& lease) const;
  // Begins those that wait, in the order in which they came, up to the first that cannot.
  void begin_waiting();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ComputeLease*> begun_;
  std::vector<ComputeLease*> waiting_;  // as they came; begun_ has room for them
  uint64_t num_changes_ = 0;
};

// How long a lease waits to begin, beside runtime.busy_timeout_ns.
struct ComputeWait {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  int64_t longest_ns = kNoLimit;
  const std::atomic<bool>* given_up = nullptr;  // not null: ends the wait once it is true
};

// Whoever has it computes from the end of its constructor to its destructor, except while it
// yields.
class ComputeLease {
 public:
  // Returns once it may compute. Error(kBusy), naming both, if it cannot begin within
  // runtime.busy_timeout_ns, Error(kTimeout) if it cannot within a shorter limit of its own,
  // Error(kCancelled) if its wait is given up; a turn is waited for without limit. what is a string
  // literal. changes is what it changes, of which one lease at a time may begin; null: nothing that
  // others change.
  ComputeLease(Runtime& runtime, const char* what, ComputeSharing sharing = ComputeSharing::kAlone,
               const void* changes = nullptr, const ComputeWait& wait = {});
  ~ComputeLease();
  ComputeLease(const ComputeLease&) = delete;
  ComputeLease& operator=(const ComputeLease&) = delete;

 private:
  friend class ComputeQueue;
  [[noreturn]] void give_up(Code code, int64_t waited_ns);

  ComputeQueue& queue_;
  const char* const what_;
  const ComputeSharing sharing_;
  const void* const changes_;
  bool begun_ = false;
};

}  // namespace rl
