// What the calls of all ranks wait for, and which rank is at fault when one of them is late: pure
// bookkeeping, which comm/watch/watch.h fills over the wire.
//
// A rank counts its calls with each other rank on each channel. A call waits for a partner until
// the partner has come to its call of the same number.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rl {

struct CallPartner {
  int rank;
  uint64_t number;  // of this call among all with that rank on the channel, from 1 on
};

struct RunningCall {
  uint64_t channel;
  std::vector<CallPartner> partners;
};

// What a rank says of its calls.
struct RankCalls {
  std::map<std::pair<int, uint64_t>, uint64_t> begun;  // by other rank and channel
  std::vector<RunningCall> running;

  std::string packed() const;
  // Error(kDataLoss) for other bytes.
  static RankCalls unpack(const std::string& bytes);
  uint64_t begun_with(int rank, uint64_t channel) const;
};

// Those of each rank; nothing for a rank that did not answer.
using CallsOfRanks = std::vector<std::optional<RankCalls>>;

// The partners that have not come to a running call of `rank`, in the call's order.
std::vector<int> awaited(const CallsOfRanks& calls, int rank, const RunningCall& call);

struct Culprit {
  enum Kind : uint8_t { kAbsent, kSilent, kCircle, kSlow };
  int rank;
  Kind kind;
};
// Follows the waits from a late call of `rank` to a rank that is in no call (kAbsent) or did not
// answer (kSilent). kCircle: the ranks wait for one another. kSlow: all partners have come.
Culprit find_culprit(const CallsOfRanks& calls, int rank, const RunningCall& late);

}  // namespace rl
