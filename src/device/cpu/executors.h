// CPU executors. The calling thread also runs tasks in every parallel_for, so an executor of n
// threads owns n - 1. Threads that an executor starts have every signal masked: the host's handlers
// run on the host's threads only.
#pragma once
#include <memory>

#include "core/executor.h"

namespace rl {

// Cores that this process may run on (the affinity mask, not the machine's count).
int usable_cores();
// Returns threads, or usable_cores() for 0; a larger number is Error(kOutOfRange).
int checked_threads(int threads);

// Has its own TBB arena, of checked_threads(threads).
std::unique_ptr<Executor> make_tbb_executor(int threads);

// Plain std::threads that spin briefly, then sleep. threads 0 means all usable cores; at most 1024,
// even beyond the number of cores (tests need that).
std::unique_ptr<Executor> make_thread_executor(int threads);

// A runtime's executor: TBB, or plain threads in a ThreadSanitizer build, because TSan cannot see
// TBB's synchronisation. threads as for make_tbb_executor.
std::unique_ptr<Executor> make_default_executor(int threads);

}  // namespace rl
