// A mutex that serves in the order of arrival: a thread that locks it again and again does not
// starve others. Who gives up in time leaves its place, which is skipped.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/deadline.h"

namespace rl {

class FifoMutex {
 public:
  void lock() {
    std::unique_lock hold(mutex_);
    const uint64_t mine = next_++;
    changed_.wait(hold, [&] { return serving_ == mine; });
  }
  // False if it was not free in time; a negative timeout never expires.
  bool try_lock_for(int64_t timeout_ns) {
    std::unique_lock hold(mutex_);
    left_.reserve(left_.size() + 1 + (next_ - serving_));  // so that leaving cannot fail
    const uint64_t mine = next_++;
    if (wait_until_ready(changed_, hold, timeout_ns, [&] { return serving_ == mine; })) return true;
    left_.push_back(mine);
    return false;
  }
  void unlock() {
    {
      const std::lock_guard hold(mutex_);
      do {
        ++serving_;
      } while (std::erase(left_, serving_) != 0);
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, serving_ = 0;
  std::vector<uint64_t> left_;  // places whose owner has given up
};

}  // namespace rl
