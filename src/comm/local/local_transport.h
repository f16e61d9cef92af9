// Ranks that are threads of one process. There may be more of them than cores: waits sleep. A
// message is copied once, by its receiver, out of the sender's memory.
//
// A rank that waits says for whom. When a deadline passes, the waits are followed to the rank that
// has not come at all, so that every rank names the one at fault, not the one it happens to wait
// for.
#pragma once
#include <memory>
#include <vector>

#include "comm/transport.h"

namespace rl {

// Transports of ranks 0 to size - 1, one for each thread that is a rank. They may end in any order.
std::vector<std::shared_ptr<Transport>> make_local_transports(int size);

}  // namespace rl
