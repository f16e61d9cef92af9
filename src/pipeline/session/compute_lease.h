// The right to compute on a runtime. One lease computes at a time. Leases that share do so in turn,
// first come, first served: a training step yields after each micro-batch, an engine takes a lease
// for each of its steps. Any other lease computes alone: a conflict with it is an error, never a
// wait. What one lease wrote, the next one sees.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/yield_point.h"

namespace rl {

class Runtime;
class ComputeLease;

enum class ComputeSharing : uint8_t {
  kAlone,  // waits for nobody, and nobody waits for it
  kInTurn  // waits for others that share
};

// The leases of a runtime. Invariant: there is none, or one alone, or any number in turn, of which
// the first one computes.
class ComputeQueue final : public YieldPoint {
 public:
  // Called by the thread that computes. Lets those that wait now compute, one turn each, and
  // returns once the lease may compute again; at once if nobody waits.
  void yield() override;
  // Leases that wait for their turn.
  int64_t num_waiting() const;

 private:
  friend class ComputeLease;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const ComputeLease*> leases_;
};

// Whoever has it computes from the end of its constructor to its destructor, except while it
// yields.
class ComputeLease {
 public:
  // Returns once it may compute. Error(kBusy), naming both, while another lease exists, unless both
  // share. what is a string literal.
  ComputeLease(Runtime& runtime, const char* what, ComputeSharing sharing = ComputeSharing::kAlone);
  ~ComputeLease();
  ComputeLease(const ComputeLease&) = delete;
  ComputeLease& operator=(const ComputeLease&) = delete;

 private:
  ComputeQueue& queue_;
  const char* const what_;
  const ComputeSharing sharing_;
};

}  // namespace rl
