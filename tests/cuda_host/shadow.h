// Who wrote and who read each two bytes of emulated memory last. Every access of a kernel comes
// here (call_outs.cc) and is checked for bounds, for memory never written, and for another thread's
// access with no barrier between.
//
// A stamp names an access: the run (each run of a block, copy or fill has a number of its own,
// ascending), how many barriers the thread's warp had passed, and the thread. Two accesses of one
// block are in order if they are one thread's, if their warp passed a barrier of the warp between,
// or the block one of the block: all warps count up to one number there. Two blocks of a launch are
// never in order; two runs of different streams are if events or the host order them
// (stream_order.h).
//
// Single bytes are checked for bounds and for being written, not for races.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda_host/emulated_memory.h"

namespace rl::emulated {

inline constexpr uintptr_t kShadowBase = 0x300000000000;

struct Cell {
  uint64_t written;  // stamp, 0: never
  uint64_t read;     // stamp of the last reader, or of several
};

inline constexpr int kThreadBits = 11, kCountBits = 21;
inline constexpr uint64_t kThreadMask = (1 << kThreadBits) - 1;
inline constexpr uint32_t kCountMax = (1u << kCountBits) - 1;
// Values of a stamp's thread beside 0 .. 1023.
inline constexpr uint32_t kSomeOfWarp = 1024;     // + warp: several lanes
inline constexpr uint32_t kSomeOfBlock = 1056;    // several warps
inline constexpr uint32_t kSomeBlocks = 1057;     // several blocks of a launch
inline constexpr uint32_t kSingleBytes = 1058;    // a write of one byte
inline constexpr uint32_t kUnderWay = kCountMax;  // count of a copy that is not complete

inline constexpr uint64_t make_stamp(uint32_t run, uint32_t count, uint32_t thread) {
  return uint64_t{run} << 32 | uint64_t{count} << kThreadBits | thread;
}
inline constexpr uint32_t run_of(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 32); }
inline constexpr uint32_t count_of(uint64_t stamp) {
  return static_cast<uint32_t>(stamp) >> kThreadBits;
}
inline constexpr uint32_t thread_of(uint64_t stamp) {
  return static_cast<uint32_t>(stamp & kThreadMask);
}

inline Cell* cells_of(uintptr_t address) {
  return reinterpret_cast<Cell*>(kShadowBase) + ((address - kArenaBase) >> 1);
}

// What runs.
struct Running {
  uint64_t stamp = 0;          // of the running thread's accesses
  uint32_t run = 0;            // of the block or copy
  uint32_t launch_first = 0;   // the first run of the launch
  uint32_t ordered_below = 0;  // all runs below are in order with this one
  uint32_t barrier_count = 0;  // what the warps counted at the block's last barrier
};
extern Running running;
extern thread_local bool this_thread_runs_kernels;

// Maps the shadow. Called once before any other function.
void map_shadow();

// Called before the access. What is wrong is reported; an access that must not happen ends the
// kernel.
void check_read(uintptr_t address, size_t bytes);
void check_write(uintptr_t address, size_t bytes);

// Asynchronous copies: at the start and at the wait.
void check_copy_start(uintptr_t shared, uintptr_t global, size_t bytes);
void finish_copy(uintptr_t shared, size_t bytes);

// Copies and fills by a stream, as one run.
void note_copied(uintptr_t to, uintptr_t from, uint64_t bytes);
void note_filled(uintptr_t to, uint64_t bytes);
void note_fetched(uintptr_t from, uint64_t bytes);
// Memory counts as never written again.
void forget(uintptr_t begin, uint64_t bytes);

}  // namespace rl::emulated
