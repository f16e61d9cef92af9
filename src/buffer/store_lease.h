// The lease of a store: who takes groups from it, as long as that process goes on writing to the
// book. Clocks of several machines are never compared: whoever waits for the end of a lease looks,
// by its own clock, how long nothing was written.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace rl {

// As a book has it.
struct StoreLease {
  uint64_t holder = 0;  // who takes; 0: there is no lease, or it has ended
  uint64_t beat = 0;    // grows whenever the holder writes
  uint64_t ns = 0;      // it lapses if nothing was written for so long

  bool operator==(const StoreLease&) const = default;
};

// A number that no other holder has.
uint64_t new_lease_holder();

// Watches the lease of another one.
class LeaseWatch {
 public:
  // Whether it is over: released, or seen for as long as it lasts without a change.
  bool is_over(const StoreLease& lease, int64_t now_ns);

 private:
  StoreLease seen_;
  int64_t since_ns_ = 0;
};

// Calls renew() on a thread of its own, until it is destroyed.
class LeaseKeeper {
 public:
  LeaseKeeper(int64_t every_ns, std::function<void()> renew);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;

 private:
  void run();

  const int64_t every_ns_;
  const std::function<void()> renew_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace rl
