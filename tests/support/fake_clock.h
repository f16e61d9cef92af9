// A clock that advances only when a test says so.
#pragma once
#include <atomic>

#include "core/clock.h"

namespace rl {

class FakeClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_.load(); }
  int64_t unix_ns() const override { return now_.load(); }
  void advance(int64_t ns) { now_.fetch_add(ns); }

 private:
  std::atomic<int64_t> now_{0};
};

}  // namespace rl
