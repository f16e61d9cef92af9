// The checks that every access of a kernel takes, inline: the call-outs have one for each size.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda_host/emulator.h"
#include "cuda_host/fibers.h"
#include "cuda_host/shadow.h"
#include "cuda_host/stream_order.h"

namespace rl::emulated {

// Reports; refuse() ends the kernel, check_outside() too unless the host itself made the access.
void report_race(uintptr_t address, uint64_t other, const char* was, const char* is);
void report_never_written(uintptr_t address);
void refuse(Fault fault, uintptr_t address, size_t bytes, const char* what);
void check_outside(uintptr_t address, size_t bytes, const char* what);

// The warp of a stamp's thread, or none.
inline uint32_t warp_of(uint32_t thread) {
  if (thread < kSomeOfWarp) return thread / 32;
  return thread < kSomeOfBlock ? thread - kSomeOfWarp : ~0u;
}

// Whether the other access comes before the running one. In shared memory other blocks have left
// nothing.
template <bool shared>
inline bool in_order(uint64_t other) {
  const uint32_t run = run_of(other);
  if (run < running.ordered_below) return true;
  if (run != running.run) return shared || (run < running.launch_first && is_ordered(run));
  const uint32_t thread = thread_of(other), count = count_of(other);
  if (thread == kSomeBlocks) return false;
  if (thread == kSingleBytes) return true;
  if (count == kUnderWay) return false;
  if (count < running.barrier_count) return true;
  const uint32_t own = thread_of(running.stamp);
  if (thread == own) return true;
  return warp_of(thread) == own / 32 && count < count_of(running.stamp);
}

// The allocation of an access that may happen; does not return otherwise.
inline const Allocation& check_bounds(uintptr_t address, size_t bytes, const char* what) {
  const Allocation* const owner = chunk_owner[(address - kArenaBase) >> kChunkBits];
  if (owner == nullptr || address < owner->begin || address + bytes > owner->end) [[unlikely]]
    refuse(Fault::kOutOfBounds, address, bytes, what);
  if (owner->freed) [[unlikely]]
    refuse(Fault::kFreed, address, bytes, what);
  if ((address & (bytes - 1)) != 0 && bytes <= 16 && (bytes & (bytes - 1)) == 0) [[unlikely]]
    refuse(Fault::kMisaligned, address, bytes, what);
  return *owner;
}

// The stamp of a cell's readers after the running thread reads too.
template <bool shared>
inline uint64_t add_reader(uint64_t readers) {
  const uint64_t own = running.stamp;
  const uint32_t run = run_of(readers);
  if (run != running.run)
    return !shared && run >= running.launch_first ? make_stamp(running.run, 0, kSomeBlocks) : own;
  const uint32_t thread = thread_of(readers), count = count_of(readers);
  const uint32_t own_thread = thread_of(own), own_count = count_of(own);
  if (thread == kSomeBlocks) return readers;
  if (thread == own_thread || count < running.barrier_count) return own;
  const uint32_t last = count > own_count ? count : own_count;
  if (thread == kSomeOfBlock || warp_of(thread) != own_thread / 32)
    return make_stamp(running.run, last, kSomeOfBlock);
  if (count < own_count) return own;
  return make_stamp(running.run, last, kSomeOfWarp + own_thread / 32);
}

inline bool on_stack(uintptr_t address) { return address - stacks_begin < kStacksBytes; }

inline size_t cells(size_t bytes) { return bytes < 2 ? 1 : bytes / 2; }

template <bool shared>
inline void read_cells(uintptr_t address, size_t bytes) {
  const uint32_t written_since = shared ? running.run : 1;
  Cell* cell = cells_of(address);
  for (size_t i = 0; i < cells(bytes); ++i, ++cell) {
    // Read before by this thread, and not written since.
    if (cell->read == running.stamp) continue;
    const uint64_t written = cell->written;
    if (run_of(written) < written_since) [[unlikely]] {
      report_never_written(address + 2 * i);
      cell->written = make_stamp(running.run, 0, kSingleBytes);  // once is enough
    } else if (bytes > 1 && !in_order<shared>(written)) [[unlikely]] {
      report_race(address + 2 * i, written, "wrote", "read");
    }
    if (bytes > 1) cell->read = add_reader<shared>(cell->read);
  }
}

template <bool shared>
inline void write_cells(uintptr_t address, size_t bytes) {
  Cell* cell = cells_of(address);
  if (bytes == 1) {
    if (run_of(cell->written) < (shared ? running.run : running.launch_first))
      cell->written = make_stamp(running.run, 0, kSingleBytes);
    return;
  }
  for (size_t i = 0; i < cells(bytes); ++i, ++cell) {
    if (!in_order<shared>(cell->written)) [[unlikely]]
      report_race(address + 2 * i, cell->written, "wrote", "write");
    else if (!in_order<shared>(cell->read)) [[unlikely]]
      report_race(address + 2 * i, cell->read, "read", "write");
    cell->written = running.stamp;
    cell->read = 0;
  }
}

// An access of so many bytes. Called before it happens.
inline void read_access(uintptr_t address, size_t bytes) {
  if (!in_arena(address)) {
    if (!on_stack(address)) check_outside(address, bytes, "read");
    return;
  }
  const Memory memory = check_bounds(address, bytes, "read").memory;
  if (memory == Memory::kDevice) read_cells<false>(address, bytes);
  if (memory == Memory::kShared) read_cells<true>(address, bytes);
}

inline void write_access(uintptr_t address, size_t bytes) {
  if (!in_arena(address)) {
    if (!on_stack(address)) check_outside(address, bytes, "write");
    return;
  }
  const Memory memory = check_bounds(address, bytes, "write").memory;
  if (memory == Memory::kDevice) write_cells<false>(address, bytes);
  if (memory == Memory::kShared) write_cells<true>(address, bytes);
}

}  // namespace rl::emulated
