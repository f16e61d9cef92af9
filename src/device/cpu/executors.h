// Executors of the CPU. The calling thread takes part in every parallel_for, so an executor of n
// threads owns n - 1. Threads that an executor starts have every signal masked: the host's handlers
// run on the host's threads only.
#pragma once
#include <memory>

#include "core/executor.h"

namespace rl {

// Cores that this process may run on (the affinity mask, not the machine's count).
int usable_cores();
// threads, or all of them for 0; more than usable_cores() is Error(kOutOfRange).
int checked_threads(int threads);

// One TBB arena of its own, of checked_threads(threads).
std::unique_ptr<Executor> make_tbb_executor(int threads);

// Plain std::threads that spin shortly, then sleep. threads 0 means all usable cores; at most 1024,
// also above the number of cores (tests need that).
std::unique_ptr<Executor> make_thread_executor(int threads);

// The executor of a runtime: TBB, or plain threads in a build with ThreadSanitizer, which cannot
// see TBB's synchronisation. threads as for make_tbb_executor.
std::unique_ptr<Executor> make_default_executor(int threads);

}  // namespace rl
