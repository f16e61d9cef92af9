// A clock that ticks when it is read: two looks are one tick of a phase, so a time counts the
// phases of its kind.
#pragma once
#include <atomic>

#include "core/clock.h"

namespace rl::testing {

// One nanosecond later at every look.
class TickingClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_.fetch_add(1) + 1; }
  int64_t unix_ns() const override { return 0; }

 private:
  mutable std::atomic<int64_t> now_{0};
};

}  // namespace rl::testing
