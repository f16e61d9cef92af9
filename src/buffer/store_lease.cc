#include "buffer/store_lease.h"

#include <chrono>
#include <random>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/signals.h"

namespace rl {

uint64_t new_lease_holder() {
  std::random_device random;
  for (;;) {
    const uint64_t holder = (uint64_t{random()} << 32) | random();
    if (holder != 0) return holder;
  }
}

bool LeaseWatch::is_over(const StoreLease& lease, int64_t now_ns) {
  if (lease.holder == 0) return true;
  if (lease != seen_) {
    seen_ = lease;
    since_ns_ = now_ns;
  }
  return static_cast<uint64_t>(now_ns - since_ns_) > lease.ns;
}

LeaseKeeper::LeaseKeeper(int64_t every_ns, std::function<void()> renew)
    : every_ns_(every_ns), renew_(std::move(renew)) {
  const ScopedSignalMask mask;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    throw Error(Code::kResourceExhausted, str("cannot start a thread: ", e.what()))
        .with_system_code(e.code().value());
  }
}

LeaseKeeper::~LeaseKeeper() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LeaseKeeper::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::nanoseconds(every_ns_), [&] { return ended_; })) {
    lock.unlock();
    renew_();
    lock.lock();
  }
}

}  // namespace rl
