// Ranks whose messages the host moves, by MPI or whatever it has. What the host says is checked at
// every call: the sizes that came, the rank that it names, and, by a header before each message,
// that both ends made the same call.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/transport.h"

namespace rl {

struct HostMessage {
  int rank;  // the other end
  void* data;
  uint64_t size;
  uint64_t received = 0;  // of an incoming message: set by the host
};

// What a host provides. Several threads may call exchange at once, each with a channel of its own;
// of one channel there is one call at a time.
class HostMessages {
 public:
  static constexpr int kUnknown = -1;
  struct Result {
    int32_t code;              // 0: all messages have come and gone
    int lost_rank = kUnknown;  // whom a failure is about
    std::string reason = {};   // for people; may be empty
  };
  virtual ~HostMessages() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Messages between two ranks on a channel keep their order. A negative timeout is none.
  virtual Result exchange(uint64_t channel, std::span<const HostMessage> out,
                          std::span<HostMessage> in, int64_t timeout_ns) = 0;
  // The ranks cannot go on because of rank `about`, which is this one if it gives up: calls that
  // run or come later, on all ranks, fail and name it. Called once, on any thread.
  virtual void abandon(int about, const std::string& why) = 0;
};

// Error(kOutOfRange) for a rank that there is not.
std::shared_ptr<Transport> make_host_transport(std::unique_ptr<HostMessages> messages);

}  // namespace rl
