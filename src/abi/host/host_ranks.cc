// Its functions run inside a CallbackScope, so that they can call nothing that might wait for the
// thread they run on.
#include "abi/host/host_ranks.h"

#include <string>
#include <utility>
#include <vector>

#include "abi/host/host_service.h"
#include "comm/host/host_transport.h"

namespace rl::abi {
namespace {

// The arrays of one side of an exchange.
struct Messages {
  explicit Messages(std::span<const HostMessage> messages) {
    for (const HostMessage& each : messages) {
      ranks.push_back(static_cast<uint32_t>(each.rank));
      data.push_back(each.data);
      sizes.push_back(each.size);
    }
  }
  std::vector<uint32_t> ranks;
  std::vector<void*> data;
  std::vector<uint64_t> sizes;
};

class HostRanks final : public HostMessages {
 public:
  HostRanks(const rl_transport* transport, UserData&& user)
      : host_(transport, std::move(user), "host.transport") {
    const rl_transport& t = host_.table();
    require_function(t.exchange, "host.transport.exchange");
    require_function(t.abandon, "host.transport.abandon");
    if (t.num_ranks == 0 || t.num_ranks > INT32_MAX)
      refuse("host.transport.num_ranks", str("is ", t.num_ranks));
    if (t.rank >= t.num_ranks) {
      refuse("host.transport.rank",
             str("is ", t.rank, ", but host.transport.num_ranks is ", t.num_ranks));
    }
  }

  int rank() const override { return static_cast<int>(host_.table().rank); }
  int size() const override { return static_cast<int>(host_.table().num_ranks); }

  Result exchange(uint64_t channel, std::span<const HostMessage> out, std::span<HostMessage> in,
                  int64_t timeout_ns) override {
    const Messages sent(out), wanted(in);
    std::vector<uint64_t> received(in.size(), 0);
    rl_exchange given{};
    given.struct_size = sizeof(given);
    given.channel = channel;
    given.num_out = out.size();
    given.out_ranks = sent.ranks.data();
    given.out_data = sent.data.data();
    given.out_sizes = sent.sizes.data();
    given.num_in = in.size();
    given.in_ranks = wanted.ranks.data();
    given.in_data = wanted.data.data();
    given.in_sizes = wanted.sizes.data();
    given.received = received.data();
    given.timeout_ns = timeout_ns;
    given.lost_rank = kUnknown;
    const int32_t code = host_.result_of(host_.table().exchange, &given);
    for (size_t i = 0; i < in.size(); ++i) in[i].received = received[i];
    if (code == 0) return {0};
    return {code, given.lost_rank, host_.meaning_of(code)};
  }

  void abandon(int about, const std::string& why) override {
    const CallbackScope scope;
    host_.table().abandon(host_.data(), static_cast<uint32_t>(about), why.data(), why.size());
  }

 private:
  HostService<rl_transport> host_;
};

}  // namespace

std::shared_ptr<Transport> host_ranks(const rl_transport* transport, UserData&& user) {
  if (transport == nullptr) return nullptr;
  return make_host_transport(std::make_unique<HostRanks>(transport, std::move(user)));
}

}  // namespace rl::abi
