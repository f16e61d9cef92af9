// CPU executors. The calling thread also runs tasks in every parallel_for, so an executor of n
// threads owns n - 1. Threads that an executor starts have every signal masked: the host's handlers
// run on the host's threads only. They run on the CPUs of a list, if it is not empty; the calling
// thread is not bound.
#pragma once
#include <memory>

#include "core/cpu_list.h"
#include "core/executor.h"

namespace rl {

// Cores that this process may run on (the affinity mask, not the machine's count).
int usable_cores();
// Returns threads, or for 0 usable_cores() or the number of CPUs in a list that is not empty; a
// larger number is Error(kOutOfRange).
int checked_threads(int threads, const CpuList& cpus = {});

// Has its own TBB arena, of checked_threads(threads).
std::unique_ptr<Executor> make_tbb_executor(int threads, const CpuList& cpus = {});

// Plain std::threads that spin briefly, then sleep. threads 0 means all usable cores; at most 1024,
// even beyond the number of cores (tests need that).
std::unique_ptr<Executor> make_thread_executor(int threads, const CpuList& cpus = {});

// A runtime's executor: TBB, or plain threads in a ThreadSanitizer build, because TSan cannot see
// TBB's synchronisation. threads as for make_tbb_executor.
std::unique_ptr<Executor> make_default_executor(int threads, const CpuList& cpus = {});

}  // namespace rl
