// The emulated memory: one range of addresses for device memory, pinned host memory and the shared
// memory of the block that runs, and what is known of each allocation. Allocations lie at least
// 64 KiB apart, and no 64 KiB hold parts of two, so that a table of them tells which one an address
// belongs to. Addresses are used again late, so that a use of freed memory is found.
//
// Device memory cannot be touched by the host, except while a DeviceAccess lives. Where much memory
// is allocated, only after one of kProtectEvery it is out of reach again, because that takes time
// for each page.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace rl::emulated {

inline constexpr uintptr_t kArenaBase = 0x200000000000;
inline constexpr uintptr_t kDeviceBytes = uintptr_t{32} << 30;
inline constexpr uintptr_t kPinnedBytes = uintptr_t{16} << 30;
inline constexpr uintptr_t kSharedBytes = uintptr_t{1} << 20;
inline constexpr uintptr_t kPinnedBase = kArenaBase + kDeviceBytes;
inline constexpr uintptr_t kSharedBase = kPinnedBase + kPinnedBytes;
inline constexpr uintptr_t kArenaBytes = kDeviceBytes + kPinnedBytes + kSharedBytes;
inline constexpr int kChunkBits = 16;
inline constexpr uintptr_t kChunkBytes = uintptr_t{1} << kChunkBits;

enum class Memory : uint8_t { kDevice, kPinned, kShared };

struct Allocation {
  uintptr_t begin, end;
  Memory memory;
  bool freed;      // or addresses without memory
  int64_t number;  // counted from 1
  bool counted;    // in the totals
  std::string describe(uintptr_t address) const;
};

// The allocation of each chunk, live or freed, or null.
extern Allocation* chunk_owner[kArenaBytes >> kChunkBits];

inline bool in_arena(uintptr_t address) { return address - kArenaBase < kArenaBytes; }
inline Allocation* owner_of(uintptr_t address) {
  return in_arena(address) ? chunk_owner[(address - kArenaBase) >> kChunkBits] : nullptr;
}

// Null where the space is exhausted. `bytes` is positive. What is part of an allocation to the
// library's eye is not counted again.
void* allocate(Memory memory, uint64_t bytes, bool counted = true);
// The live allocation that begins here, or null.
Allocation* find_allocation(Memory memory, const void* begin);
void release(Allocation* allocation);
// Addresses whose pages come and go (mapped_pages.h): while they are not usable they are freed
// memory, and what they held is gone.
void set_usable(Allocation* addresses, bool usable);
// One more, or with -1 one less, of the device's allocations.
void count_pages(int sign, uint64_t bytes);
// Forgets every allocation.
void drop_allocations();

struct MemoryTotals {
  int64_t device_allocations, pinned_allocations;
  uint64_t device_bytes, pinned_bytes;
};
MemoryTotals memory_totals();

// The block's shared memory: so many bytes from kSharedBase on.
void set_shared_bytes(uint64_t bytes);

inline constexpr int kProtectEvery = 16;
inline constexpr uint64_t kMuchMemory = 1 << 20;

// While one lives, the host may touch device memory.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
};

// "0x200000000110, byte 16 of allocation 3 (64 bytes of device memory)".
std::string describe_address(uintptr_t address);

}  // namespace rl::emulated
