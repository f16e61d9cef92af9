// Ranks that are processes: how this one meets the others (comm.backend, comm.rendezvous).
#pragma once
#include <memory>

#include "comm/transport.h"
#include "core/fs.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

// Whether the ranks of a run are processes.
bool has_process_ranks(const Settings& settings);

// Returns when all ranks have met. Error(kInvalidArgument) for a place of another form, kNotFound
// for a directory that there is not, kIo where rank 0 cannot listen, kNotInBuild without the
// backend's plugin; RankError names a rank that did not come. files is needed until it returns.
std::shared_ptr<Transport> join_ranks(const Settings& settings, FileSystem& files);

}  // namespace rl
