// The clock seam. Deadlines and spans use now_ns, which never goes back; unix_ns is for records
// that people read.
#pragma once
#include <chrono>
#include <cstdint>

namespace rl {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const = 0;
  virtual int64_t unix_ns() const = 0;
};

class RealClock final : public Clock {
 public:
  int64_t now_ns() const override { return count(std::chrono::steady_clock::now()); }
  int64_t unix_ns() const override { return count(std::chrono::system_clock::now()); }

 private:
  template <typename TimePoint>
  static int64_t count(TimePoint t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  }
};

inline double to_seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Both clocks at one moment.
struct ClockReading {
  int64_t steady_ns, unix_ns;
};
inline ClockReading read_both(const Clock& clock) {
  const int64_t before = clock.now_ns(), unix_ns = clock.unix_ns(), after = clock.now_ns();
  return {before + (after - before) / 2, unix_ns};
}

// Never destroyed.
inline Clock& real_clock() {
  static RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace rl
