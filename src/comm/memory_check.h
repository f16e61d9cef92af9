// What memory was free around a collective (comm.memory_check). When the system ends a process for
// want of memory the others only see that its rank is gone; what was free on them before and after
// says whether memory is the reason to look for first.
#pragma once
#include <cstdint>
#include <memory>

#include "core/function_ref.h"

namespace rl {

// The system's memory; a seam for tests.
class FreeMemory {
 public:
  virtual ~FreeMemory() = default;
  // That can be had without swapping.
  virtual uint64_t bytes() const = 0;
  // Gives back to the system what the process has freed and keeps.
  virtual void release_caches() = 0;
};

// By /proc/meminfo; Error(kUnsupported) where it says nothing.
std::shared_ptr<FreeMemory> free_system_memory();

struct MemoryCheck {
  std::shared_ptr<FreeMemory> memory;  // null: no check
  uint64_t threshold_bytes = 0;        // with less free, caches are released before a call
};

// Runs a call. An Error of it gets what was free before and after.
void run_checked(const MemoryCheck& check, FunctionRef<void()> call);

}  // namespace rl
