// Pages of the emulated device that are mapped to addresses: what cuMemCreate() and cuMemMap()
// make. Pages count as memory of the device until their handle is released and they are unmapped.
// Addresses without pages that may be accessed are freed memory to every check.
#pragma once
#include <cstdint>

#include "cuda_host/emulated_memory.h"

namespace rl::emulated {

// The new pages' number, or 0 if the device has no room.
uint64_t create_pages(uint64_t bytes, uint64_t device_bytes);
// False: there are no such pages, or these sizes do not belong together.
bool release_pages(uint64_t pages);
bool map_pages(uint64_t pages, Allocation* addresses);
bool unmap_pages(Allocation* addresses);
bool has_pages(const Allocation* addresses);
void drop_pages();

}  // namespace rl::emulated
