// Waits on a condition variable with the library's timeouts in nanoseconds: 0 polls, a negative
// value waits indefinitely, and very long ones do not overflow.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace rl {

// True if ready() held before the timeout. ready is called with the lock held.
template <typename Ready>
bool wait_until_ready(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                      int64_t timeout_ns, Ready ready) {
  constexpr int64_t kForEverNs = int64_t{100} * 365 * 24 * 3600 * 1000000000;
  if (timeout_ns < 0 || timeout_ns > kForEverNs) {
    condition.wait(lock, ready);
    return true;
  }
  if (timeout_ns == 0) return ready();
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  return condition.wait_until(lock, end, ready);
}

}  // namespace rl
