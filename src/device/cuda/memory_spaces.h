// The memory of a GPU as sources of arenas (core/arena.h): device memory, pinned host memory, and
// device memory for scratch. An arena is one reservation.
#pragma once
#include <cstdint>
#include <memory>

#include "core/arena.h"

namespace rl::cuda {

enum class Space : uint8_t {
  kDevice,   // initially zero; what one arena takes is a multiple of what the device maps at once
  kScratch,  // device memory whose content is undefined until it is written
  kPinned,   // host memory that the device reads and writes; initially zero
};

// A source of the space on the device. What CUDA refuses is an Error(kOutOfMemory), or of
// kDeviceLost. Memory that is decommitted or released may still be in use by work in a stream: both
// wait for the device. Decommitted memory of the device is free for others until commit(), and
// whatever uses it before is a fault of the device.
std::shared_ptr<MemorySource> memory_of(Space space, int device);

}  // namespace rl::cuda
