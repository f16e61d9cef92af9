#include "cuda_host/shadow.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda_host/block_run.h"
#include "cuda_host/emulator.h"
#include "cuda_host/fibers.h"
#include "cuda_host/reports.h"
#include "cuda_host/stream_order.h"

namespace rl::emulated {

Running running;
thread_local bool this_thread_runs_kernels = false;

namespace {

std::string thread_text(uint32_t thread) {
  if (thread < kSomeOfWarp) return "thread " + std::to_string(thread);
  if (thread < kSomeOfBlock) return "lanes of warp " + std::to_string(thread - kSomeOfWarp);
  return thread == kSomeOfBlock ? "several warps" : "threads of several blocks";
}

// The warp of a stamp's thread, or none.
uint32_t warp_of(uint32_t thread) {
  if (thread < kSomeOfWarp) return thread / 32;
  return thread < kSomeOfBlock ? thread - kSomeOfWarp : ~0u;
}

[[gnu::cold, gnu::noinline]] void report_race(uintptr_t address, uint64_t other, const char* was,
                                              const char* is) {
  const uint32_t run = run_of(other), thread = thread_of(other);
  std::string by = thread_text(thread);
  Fault fault = Fault::kRace;
  if (run < running.launch_first) {
    by = run_name(run);
    fault = Fault::kStreamRace;
  } else if (run != running.run) {
    by += " of another block";
  } else if (count_of(other) == kUnderWay) {
    by = "an asynchronous copy of " + by;
    fault = Fault::kCopyNotComplete;
  }
  report(fault, address,
         std::string(is) + " of " + describe_address(address) + ", which " + by + " " + was +
             " with no barrier or event between");
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

[[gnu::cold, gnu::noinline]] void refuse(Fault fault, uintptr_t address, size_t bytes,
                                         const char* what) {
  report(fault, address,
         std::string(what) + " of " + std::to_string(bytes) + " bytes at " +
             describe_address(address));
  end_kernel();
}

[[gnu::noinline]] void check_outside(uintptr_t address, size_t bytes, const char* what) {
  if (!this_thread_runs_kernels) return;  // the host's own memory
  refuse(Fault::kHostMemory, address, bytes, what);
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

inline bool on_stack(uintptr_t address) { return address - stacks_base() < kStacksBytes; }

inline size_t cells(size_t bytes) { return bytes < 2 ? 1 : bytes / 2; }

[[gnu::cold, gnu::noinline]] void report_never_written(uintptr_t address) {
  report(Fault::kNeverWritten, address, "read of " + describe_address(address));
}

template <bool shared>
inline void read_cells(uintptr_t address, size_t bytes) {
  const uint32_t written_since = shared ? running.run : 1;
  Cell* cell = cells_of(address);
  for (size_t i = 0; i < cells(bytes); ++i, ++cell) {
    const uint64_t written = cell->written;
    if (run_of(written) < written_since) [[unlikely]] {
      report_never_written(address + 2 * i);
      cell->written = make_stamp(running.run, 0, kSingleBytes);  // once is enough
    } else if (bytes > 1 && !in_order<shared>(written)) [[unlikely]] {
      report_race(address + 2 * i, written, "wrote", "read");
    }
    if (cell->read != running.stamp && bytes > 1) cell->read = add_reader<shared>(cell->read);
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

}  // namespace

void map_shadow() {
  const size_t bytes = kArenaBytes / 2 * sizeof(Cell);
  void* const at = mmap(reinterpret_cast<void*>(kShadowBase), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == reinterpret_cast<void*>(kShadowBase)) return;
  std::perror("emulated GPU: no addresses for the shadow memory");
  std::abort();
}

void check_read(uintptr_t address, size_t bytes) {
  if (!in_arena(address)) {
    if (!on_stack(address)) check_outside(address, bytes, "read");
    return;
  }
  const Memory memory = check_bounds(address, bytes, "read").memory;
  if (memory == Memory::kDevice) read_cells<false>(address, bytes);
  if (memory == Memory::kShared) read_cells<true>(address, bytes);
}

void check_write(uintptr_t address, size_t bytes) {
  if (!in_arena(address)) {
    if (!on_stack(address)) check_outside(address, bytes, "write");
    return;
  }
  const Memory memory = check_bounds(address, bytes, "write").memory;
  if (memory == Memory::kDevice) write_cells<false>(address, bytes);
  if (memory == Memory::kShared) write_cells<true>(address, bytes);
}

void check_copy_start(uintptr_t shared, uintptr_t global, size_t bytes) {
  if (shared - kSharedBase >= kSharedBytes)
    refuse(Fault::kOutOfBounds, shared, bytes, "copy to what is not shared memory,");
  if (!in_arena(global) || global >= kSharedBase)
    refuse(Fault::kOutOfBounds, global, bytes, "copy from what is not global memory,");
  check_read(global, bytes);
  check_write(shared, bytes);
  const uint64_t stamp = make_stamp(running.run, kUnderWay, thread_of(running.stamp));
  for (size_t i = 0; i < cells(bytes); ++i) cells_of(shared)[i].written = stamp;
}

void finish_copy(uintptr_t shared, size_t bytes) {
  for (size_t i = 0; i < cells(bytes); ++i) cells_of(shared)[i].written = running.stamp;
}

void note_filled(uintptr_t to, uint64_t bytes) {
  if (owner_of(to) == nullptr || owner_of(to)->memory != Memory::kDevice) return;
  const Cell* const end = cells_of(to + bytes + 1);
  for (Cell* cell = cells_of(to); cell < end; ++cell) {
    if (!in_order<false>(cell->written) || !in_order<false>(cell->read)) [[unlikely]] {
      const bool wrote = !in_order<false>(cell->written);
      report_race(to, wrote ? cell->written : cell->read, wrote ? "wrote" : "read", "write");
    }
    *cell = {running.stamp, 0};
  }
}

void note_fetched(uintptr_t from, uint64_t bytes) {
  if (owner_of(from) == nullptr || owner_of(from)->memory != Memory::kDevice) return;
  const Cell* const end = cells_of(from + bytes + 1);
  bool reported = false;
  for (Cell* cell = cells_of(from); cell < end; ++cell) {
    const uintptr_t address = kArenaBase + 2 * static_cast<uintptr_t>(cell - cells_of(kArenaBase));
    if (cell->written == 0 && !reported) {
      report_never_written(address);
      reported = true;
    }
    if (!in_order<false>(cell->written)) report_race(address, cell->written, "wrote", "read");
    cell->read = add_reader<false>(cell->read);
  }
}

void note_copied(uintptr_t to, uintptr_t from, uint64_t bytes) {
  // What was never written stays so.
  const Cell* source = cells_of(from);
  const Cell* const end = cells_of(to + bytes + 1);
  for (Cell* cell = cells_of(to); cell < end; ++cell, ++source) {
    const uintptr_t address =
        kArenaBase + 2 * static_cast<uintptr_t>(source - cells_of(kArenaBase));
    if (!in_order<false>(source->written)) report_race(address, source->written, "wrote", "read");
    if (!in_order<false>(cell->written)) report_race(to, cell->written, "wrote", "write");
    if (!in_order<false>(cell->read)) report_race(to, cell->read, "read", "write");
    *cell = {source->written == 0 ? 0 : running.stamp, 0};
  }
  for (Cell* cell = cells_of(from); cell < cells_of(from + bytes + 1); ++cell)
    cell->read = add_reader<false>(cell->read);
}

void forget(uintptr_t begin, uint64_t bytes) {
  char* const first = reinterpret_cast<char*>(cells_of(begin));
  const size_t size = bytes / 2 * sizeof(Cell);
  // Whole pages go back to the system, so that memory that was touched once is not kept.
  constexpr uintptr_t kPage = 4096;
  char* const page =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(first) + kPage - 1) & ~(kPage - 1));
  if (page + kPage > first + size) {
    std::memset(first, 0, size);
    return;
  }
  const size_t pages = static_cast<size_t>(first + size - page) & ~(kPage - 1);
  std::memset(first, 0, static_cast<size_t>(page - first));
  madvise(page, pages, MADV_DONTNEED);
  std::memset(page + pages, 0, static_cast<size_t>(first + size - page) - pages);
}

}  // namespace rl::emulated
