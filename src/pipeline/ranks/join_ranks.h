// Ranks that make their own runtimes: how one meets the others (comm.backend, comm.rendezvous).
#pragma once
#include <memory>

#include "comm/transport.h"
#include "core/fs.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

// Whether each rank of a run makes its own runtime: comm.backend is not local.
bool makes_own_runtimes(const Settings& settings);

// given: what the host provides, null for nothing. It is there with comm.backend = host, and only
// then: Error(kFailedPrecondition), Error(kConflict); Error(kInvalidArgument) for another number of
// ranks than the run's.
void check_host_ranks(const Settings& settings, const Transport* given, int size);

// Returns when all ranks have met. Error(kInvalidArgument) for a place of another form, kNotFound
// for a directory that there is not, kIo where rank 0 cannot listen, kNotInBuild without the
// backend's plugin; RankError names a rank that did not come. files is needed until it returns.
std::shared_ptr<Transport> join_ranks(const Settings& settings, FileSystem& files);

}  // namespace rl
