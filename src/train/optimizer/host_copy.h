// Arenas of the device that are out of use for a while: a copy of their content is in memory of the
// host, in an arena of its own that a ledger shows, and their pages are the system's. Invariant:
// after wake() every bit of what was kept is where it was.
#pragma once
#include <vector>

#include "core/arena.h"
#include "ops/compute.h"

namespace rl {

class HostCopy {
 public:
  // dropped: their content is not kept, and zeros afterwards. Arenas without bytes are skipped. All
  // of them outlive the call of wake(). Throws before anything has changed.
  void sleep(Compute& compute, std::vector<Arena*> kept, std::vector<Arena*> dropped);
  // No effect while nothing sleeps. If memory of the device cannot be had back, all of it stays
  // asleep.
  void wake(Compute& compute);
  bool asleep() const { return asleep_; }

 private:
  bool asleep_ = false;
  std::vector<Arena*> kept_, dropped_;
  Arena host_;
};

}  // namespace rl
