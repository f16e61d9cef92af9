// The range is reserved whole at the first allocation; pages get memory when they are touched.
#include "cuda_host/emulated_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>

#include "cuda_host/host_access.h"
#include "cuda_host/shadow.h"

namespace rl::emulated {

Allocation* chunk_owner[kArenaBytes >> kChunkBits];

namespace {

// Where a space's next allocation goes: to fresh addresses, or to those of an allocation of as many
// chunks of which kQuarantine were released since.
constexpr size_t kQuarantine = 256;
struct Space {
  uintptr_t base, bytes, next = 0;
  std::map<uint64_t, std::deque<uintptr_t>> released = {};  // by chunks
};
struct Memories {
  Space device{kArenaBase, kDeviceBytes}, pinned{kPinnedBase, kPinnedBytes};
  std::deque<Allocation> all;
  Allocation shared{kSharedBase, kSharedBase, Memory::kShared, false, 0, false};
  int64_t num_allocated = 0;
  MemoryTotals totals{};
  int accesses = 0, rounds = 0;
  bool open = false;          // the host may touch device memory
  uintptr_t device_used = 0;  // bytes from kArenaBase on that were ever allocated
};

void reserve(uintptr_t base, uintptr_t bytes, int protection) {
  void* const at = mmap(reinterpret_cast<void*>(base), bytes, protection,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != reinterpret_cast<void*>(base)) {
    std::perror("emulated GPU: its range of addresses is not free");
    std::abort();
  }
}

Memories& memories() {
  static Memories* const all = [] {
    Memories* const made = new Memories;
    reserve(kArenaBase, kDeviceBytes, PROT_NONE);
    reserve(kPinnedBase, kPinnedBytes + kSharedBytes, PROT_READ | PROT_WRITE);
    map_shadow();
    watch_host_accesses();
    for (uintptr_t at = kSharedBase; at < kSharedBase + kSharedBytes; at += kChunkBytes)
      chunk_owner[(at - kArenaBase) >> kChunkBits] = &made->shared;
    return made;
  }();
  return *all;
}

void add(const Allocation& allocation, int sign) {
  if (!allocation.counted) return;
  MemoryTotals& totals = memories().totals;
  const uint64_t bytes = (allocation.end - allocation.begin) * static_cast<uint64_t>(sign);
  if (allocation.memory == Memory::kDevice) {
    totals.device_allocations += sign;
    totals.device_bytes += bytes;
  } else {
    totals.pinned_allocations += sign;
    totals.pinned_bytes += bytes;
  }
}

void protect_device(bool open) {
  Memories& all = memories();
  all.open = open;
  if (all.device_used == 0) return;
  const int protection = open ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mprotect(reinterpret_cast<void*>(kArenaBase), all.device_used, protection) == 0) return;
  std::perror("emulated GPU: mprotect");
  std::abort();
}

const char* memory_name(Memory memory) {
  if (memory == Memory::kDevice) return "device memory";
  return memory == Memory::kPinned ? "pinned memory" : "shared memory";
}

}  // namespace

std::string Allocation::describe(uintptr_t address) const {
  const std::string what = std::to_string(end - begin) + " bytes of " + memory_name(memory);
  const std::string name =
      memory == Memory::kShared ? what : "allocation " + std::to_string(number) + " (" + what + ")";
  const char* const state = freed ? ", which is freed" : "";
  if (address >= end)
    return std::to_string(address - end) + " bytes past the end of " + name + state;
  if (address < begin)
    return std::to_string(begin - address) + " bytes before the start of " + name + state;
  return "byte " + std::to_string(address - begin) + " of " + name + state;
}

std::string describe_address(uintptr_t address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  if (!in_arena(address)) return std::string(text) + " (memory of the host)";
  // The owner, or the nearest allocation before, or the one that follows.
  const uintptr_t chunk = (address - kArenaBase) >> kChunkBits;
  for (uintptr_t back = 0; back <= chunk && back < 1024; ++back)
    if (const Allocation* owner = chunk_owner[chunk - back])
      return std::string(text) + ", " + owner->describe(address);
  if (chunk + 1 < sizeof chunk_owner / sizeof chunk_owner[0])
    if (const Allocation* owner = chunk_owner[chunk + 1])
      return std::string(text) + ", " + owner->describe(address);
  return std::string(text) + ", far from every allocation";
}

void* allocate(Memory memory, uint64_t bytes, bool counted) {
  Memories& all = memories();
  Space& space = memory == Memory::kDevice ? all.device : all.pinned;
  // 256 bytes into the chunk: no better alignment than the device promises.
  const uint64_t chunks = (bytes + 256 + kChunkBytes - 1) / kChunkBytes + 1;
  std::deque<uintptr_t>& released = space.released[chunks];
  uintptr_t start = space.base + space.next;
  if (released.size() > kQuarantine) {
    start = released.front();
    released.pop_front();
  } else if (bytes > space.bytes || chunks * kChunkBytes > space.bytes - space.next) {
    return nullptr;
  } else {
    space.next += chunks * kChunkBytes;
  }
  const uintptr_t begin = start + 256;
  const uintptr_t first = (begin - kArenaBase) >> kChunkBits;
  all.all.push_back({begin, begin + bytes, memory, false, ++all.num_allocated, counted});
  for (uint64_t i = 0; i + 1 < chunks; ++i) chunk_owner[first + i] = &all.all.back();
  add(all.all.back(), 1);
  if (memory == Memory::kDevice && space.next > all.device_used) {
    all.device_used = space.next;
    if (all.open) protect_device(true);
  }
  return reinterpret_cast<void*>(begin);
}

Allocation* find_allocation(Memory memory, const void* begin) {
  memories();
  Allocation* const owner = owner_of(reinterpret_cast<uintptr_t>(begin));
  const bool found = owner != nullptr && owner->memory == memory && !owner->freed &&
                     owner->begin == reinterpret_cast<uintptr_t>(begin);
  return found ? owner : nullptr;
}

namespace {

uintptr_t start_of(const Allocation& allocation) { return allocation.begin & ~(kChunkBytes - 1); }

void forget_content(const Allocation& allocation) {
  const uintptr_t start = start_of(allocation);
  const uint64_t bytes = allocation.end - start;
  forget(start, bytes);
  // What is small may keep its pages, because its addresses are soon used again.
  if (bytes > kChunkBytes) madvise(reinterpret_cast<void*>(start), bytes, MADV_DONTNEED);
}

}  // namespace

void set_usable(Allocation* addresses, bool usable) {
  addresses->freed = !usable;
  if (!usable) forget_content(*addresses);
}

void count_pages(int sign, uint64_t bytes) {
  memories().totals.device_allocations += sign;
  memories().totals.device_bytes += bytes * static_cast<uint64_t>(sign);
}

void release(Allocation* allocation) {
  allocation->freed = true;
  add(*allocation, -1);
  forget_content(*allocation);
  const uintptr_t start = start_of(*allocation);
  const uint64_t bytes = allocation->end - start;
  Space& space = allocation->memory == Memory::kDevice ? memories().device : memories().pinned;
  space.released[(bytes + kChunkBytes - 1) / kChunkBytes + 1].push_back(start);
}

void drop_allocations() {
  Memories& all = memories();
  for (Allocation& allocation : all.all)
    if (!allocation.freed) release(&allocation);
  for (Space* space : {&all.device, &all.pinned}) {
    const uintptr_t first = (space->base - kArenaBase) >> kChunkBits;
    for (uintptr_t i = 0; i < space->next >> kChunkBits; ++i) chunk_owner[first + i] = nullptr;
    space->next = 0;
    space->released.clear();
  }
  all.all.clear();
  all.num_allocated = 0;
}

MemoryTotals memory_totals() { return memories().totals; }

void set_shared_bytes(uint64_t bytes) { memories().shared.end = kSharedBase + bytes; }

DeviceAccess::DeviceAccess() {
  if (memories().accesses++ == 0 && !memories().open) protect_device(true);
}
DeviceAccess::~DeviceAccess() {
  Memories& all = memories();
  if (--all.accesses > 0) return;
  const bool often = all.totals.device_bytes < kMuchMemory;
  if (often || ++all.rounds % kProtectEvery == 0) protect_device(false);
}

}  // namespace rl::emulated
