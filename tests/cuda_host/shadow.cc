// What shadow_cells.h leaves out of line: reports, and the accesses of copies and fills.
#include "cuda_host/shadow.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda_host/block_run.h"
#include "cuda_host/emulator.h"
#include "cuda_host/reports.h"
#include "cuda_host/shadow_cells.h"
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

}  // namespace

[[gnu::cold]] void report_race(uintptr_t address, uint64_t other, const char* was, const char* is) {
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

[[gnu::cold]] void refuse(Fault fault, uintptr_t address, size_t bytes, const char* what) {
  report(fault, address,
         std::string(what) + " of " + std::to_string(bytes) + " bytes at " +
             describe_address(address));
  end_kernel();
}

void check_outside(uintptr_t address, size_t bytes, const char* what) {
  if (!this_thread_runs_kernels) return;  // the host's own memory
  refuse(Fault::kHostMemory, address, bytes, what);
}

[[gnu::cold]] void report_never_written(uintptr_t address) {
  report(Fault::kNeverWritten, address, "read of " + describe_address(address));
}

void check_read(uintptr_t address, size_t bytes) { read_access(address, bytes); }
void check_write(uintptr_t address, size_t bytes) { write_access(address, bytes); }

void map_shadow() {
  const size_t bytes = kArenaBytes / 2 * sizeof(Cell);
  void* const at = mmap(reinterpret_cast<void*>(kShadowBase), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == reinterpret_cast<void*>(kShadowBase)) return;
  std::perror("emulated GPU: no addresses for the shadow memory");
  std::abort();
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
  const size_t size = (bytes + 1) / 2 * sizeof(Cell);
  // Many pages go back to the system, which is cheaper than to clear them.
  constexpr uintptr_t kPage = 4096, kMany = 64 * kPage;
  char* const page =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(first) + kPage - 1) & ~(kPage - 1));
  if (size < kMany) {
    std::memset(first, 0, size);
    return;
  }
  const size_t pages = static_cast<size_t>(first + size - page) & ~(kPage - 1);
  std::memset(first, 0, static_cast<size_t>(page - first));
  madvise(page, pages, MADV_DONTNEED);
  std::memset(page + pages, 0, static_cast<size_t>(first + size - page) - pages);
}

}  // namespace rl::emulated
