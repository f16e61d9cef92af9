// Ranks of several processes meet: every two of them get a connection, over which
// comm/watch/watch.h watches the other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/rendezvous/rendezvous.h"
#include "comm/wire/socket.h"

namespace rl {

struct MeetingPlace {
  Rendezvous& rendezvous;
  int rank, size;
  std::string address;  // of this rank for the others; empty: the rendezvous's, or loopback
  int64_t deadline_ns;  // negative: there is none
};

// A connection to each other rank, by its number; the own is closed. RankError names a rank that
// did not come by the deadline, Error(kIncompatible) one that expects another number of ranks or is
// of another version.
std::vector<Socket> meet(const MeetingPlace& place);

// Each rank gives each other a text: texts[r] goes to rank r, whose own for this rank is returned
// at r. When it returns, all ranks have met.
std::vector<std::string> swap_texts(const MeetingPlace& place, const std::vector<Socket>& links,
                                    const std::vector<std::string>& texts);

}  // namespace rl
