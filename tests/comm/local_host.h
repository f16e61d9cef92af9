// A host of tests, whose ranks are threads.
#pragma once
#include <atomic>
#include <map>
#include <mutex>

#include "comm/host/host_transport.h"
#include "comm/local_ranks.h"
#include "core/clock.h"

namespace rl {

// A host that moves messages by local ranks, and counts on the promises that it is given.
class LocalHost : public HostMessages {
 public:
  explicit LocalHost(std::shared_ptr<Transport> base) : base_(std::move(base)) {}
  int rank() const override { return base_->rank(); }
  int size() const override { return base_->size(); }

  Result exchange(uint64_t channel, std::span<const HostMessage> out, std::span<HostMessage> in,
                  int64_t timeout_ns) override {
    enter(channel);
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (const HostMessage& each : out)
      outgoing.push_back({each.rank, {static_cast<const std::byte*>(each.data), each.size}});
    for (HostMessage& each : in) {
      incoming.push_back({each.rank, {static_cast<std::byte*>(each.data), each.size}});
      each.received = each.size;
    }
    const int64_t deadline = timeout_ns < 0 ? -1 : real_clock().now_ns() + timeout_ns;
    Result result{0};
    try {
      base_->exchange({channel, "the host's", outgoing, incoming, deadline});
    } catch (const RankError& error) {
      result = {5, error.rank, error.message};
    }
    leave(channel);
    return result;
  }

  void abandon(int about, const std::string& why) override {
    EXPECT_FALSE(has_abandoned_.exchange(true)) << "told twice: " << about << " " << why;
    base_->fail(why);
  }

 private:
  // Of one channel there is one call at a time.
  void enter(uint64_t channel) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(++running_[channel], 1) << channel;
  }
  void leave(uint64_t channel) {
    const std::lock_guard lock(mutex_);
    --running_[channel];
  }

  std::shared_ptr<Transport> base_;
  std::mutex mutex_;
  std::map<uint64_t, int> running_;
  std::atomic<bool> has_abandoned_ = false;
};

inline TransportOf host_backend(int size) {
  return [local = local_backend(size)](int rank) {
    return make_host_transport(std::make_unique<LocalHost>(local(rank)));
  };
}

}  // namespace rl
