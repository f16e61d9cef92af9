// What a backend of process groups provides: messages among numbered ranks. Collectives are built
// on it once, in comm/group.h, so that their results do not depend on the backend.
//
// A transport belongs to one rank. It fails as a whole: the first failure of any rank is that of
// all ranks, which name the same rank from then on. Of failures in several processes at one moment
// each keeps the one that it learned first. A failed transport can only be destroyed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace rl {

// A rank failed, left, or did not come in time. `rank` is its number among all ranks.
class RankError : public Error {
 public:
  RankError(int rank, std::string message)
      : Error(Code::kRankLost, std::move(message)), rank(rank) {
    location = str("rank ", rank);
  }
  int rank;
};

struct Outgoing {
  int to;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from;
  std::span<std::byte> bytes;
};

// The messages of one rank in one step of a collective. No rank sends to itself, and to each other
// rank goes at most one message, as from each comes at most one. Messages may be empty.
struct Exchange {
  uint64_t channel;       // messages of different channels never meet
  std::string_view what;  // the collective; equal at both ends of a message
  std::span<const Outgoing> out;
  std::span<const Incoming> in;
  int64_t deadline_ns;  // by real_clock(); negative: there is none
};

class Transport {
 public:
  // How long a rank waits for news of another that may be gone before it says it failed itself.
  static constexpr int64_t kNewsNs = 800 * 1000000;

  // Leaves the ranks: whoever waits for this one, or will, fails and names it. No exchange of this
  // rank may run.
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns when all messages have come and the memory of `out` may be written again. RankError
  // names the rank that failed, has left or did not come by the deadline; Error(kIncompatible)
  // names both ends of a message that disagree about the collective or the size. Then the contents
  // of `in` are undefined. Several threads may call it at once with different channels.
  virtual void exchange(const Exchange& exchange) = 0;

  // For ranks that share memory: an exchange whose messages are read where they are. `read` is
  // called once all have come, with their addresses in the order of `in`, whose spans give the
  // sizes alone; until it returns, their senders' calls do not. It throws nothing. False, and
  // nothing has happened, if the backend copies messages: the same on all ranks.
  using ReadInPlace = std::function<void(std::span<const std::byte* const> messages)>;
  virtual bool exchange_in_place(const Exchange&, const ReadInPlace&) { return false; }

  // Throws what an exchange would, if the transport has failed. For a rank that waits for something
  // else. Any thread.
  virtual void check() = 0;

  // This rank gives up: every exchange fails from now on, on every rank, and names this one. Of
  // several failures the first counts. Any thread.
  virtual void fail(const std::string& why) = 0;
};

}  // namespace rl
