// What a group has sent and received: payload bytes, without headers and retries of the backend,
// also where ranks that share memory copy none of them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace rl {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kMessage,  // send, receive and shift
  kBarrier
};
inline constexpr size_t kNumCollectives = 7;
// Both ends of a message show the same name, in errors too.
const char* collective_name(Collective collective);

// What calls are for.
enum class TrafficUse : uint8_t {
  kOther,
  kGradients,
  kParameters,
  kStates,
  kActivations,
  kContext,
  kTensor,
  kWeights
};
inline constexpr size_t kNumTrafficUses = 8;

struct TrafficBytes {
  uint64_t sent = 0, received = 0;

  TrafficBytes& operator+=(const TrafficBytes& other);
  // Since an earlier reading.
  TrafficBytes operator-(const TrafficBytes& before) const;
  bool operator==(const TrafficBytes&) const = default;
};

struct Traffic {
  std::array<TrafficBytes, kNumCollectives> by_call = {};
  std::array<TrafficBytes, kNumTrafficUses> by_use = {};
  TrafficBytes overlapped = {};  // of calls that were started: the rank computed meanwhile
  TrafficBytes between = {};     // between groups of ranks (comm/grouped_sum.h)

  const TrafficBytes& of(Collective call) const { return by_call[static_cast<size_t>(call)]; }
  const TrafficBytes& of(TrafficUse use) const { return by_use[static_cast<size_t>(use)]; }
  TrafficBytes total() const;
  Traffic& operator+=(const Traffic& other);
  Traffic operator-(const Traffic& before) const;
};

// Counted on any thread, of messages that have come and gone.
class TrafficCounter {
 public:
  struct Kind {
    Collective call;
    TrafficUse use;
    bool started;
  };
  void add(const Kind& kind, const TrafficBytes& bytes);
  Traffic now() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  Traffic traffic_;
};

}  // namespace rl
