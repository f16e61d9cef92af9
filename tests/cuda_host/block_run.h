// Runs a launch: its blocks one after the other, the threads of a block as fibers. A thread runs
// until it waits; then the next lane of its warp does, in an order that the seed chooses. When all
// lanes of a warp wait at one call, that call happens for all and they go on. When all warps wait
// at one barrier, the block goes on. Anything else is reported as divergent and ends the kernel.
#pragma once
#include <cstdint>
#include <source_location>

namespace rl::emulated {

using Site = std::source_location;

struct LaunchRecord {
  const char* name;
  const void* kernel;
  void (*invoke)(const void* kernel, const void* params);
  const void* params;
  int64_t grid[3];
  int threads;
  uint64_t shared_bytes;
  uint64_t seed;
};

// False if a fault ended it.
bool run_launch(const LaunchRecord& launch);

// For calls of threads (warp_calls.cc). `operands[l]` is what lane l passed.
using WarpCall = void (*)(void* const* operands);
void wait_for_warp(WarpCall call, void* operand, const Site& site);

// Ends the running kernel after a report; does not return.
[[noreturn]] void end_kernel();

// Where the running thread is.
struct Place {
  const char* kernel;
  int64_t block[3];
  int thread;
};
Place running_place();
// Whether the calling thread of the host runs a kernel's thread now.
bool inside_kernel();
// A number of the seed's sequence.
uint64_t draw();

// Copies under way of the running thread (async_copies.cc).
void land_some_copies();
void land_all_copies();

}  // namespace rl::emulated
