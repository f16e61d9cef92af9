// One block is kept at a time, in static storage: blocks run one after the other, under the lock of
// the emulation. The last lane of a warp that stops makes the warp's call for all and continues
// with the lane whose turn is first, so that a switch of fibers is all that a wait costs.
#include "cuda_host/block_run.h"

#include <cstring>
#include <string>
#include <vector>

#include "cuda_host/emulator.h"
#include "cuda_host/fibers.h"
#include "cuda_host/host_access.h"
#include "cuda_host/reports.h"
#include "cuda_host/shadow.h"
#include "device/cuda/lang/kernel.h"

namespace rl::emulated {
namespace {

constexpr int kLanes = 32, kThreads = 1024;

enum class State : uint8_t { kFresh, kReady, kAtWarpCall, kAtBarrier, kGone };

struct Thread {
  void* context;
  void* operand;
  WarpCall call;
  Site site;
  int stack;
  State state;
};

struct Warp {
  uint32_t count;                // barriers passed
  int next;                      // how many lanes had their turn since the last one
  int factor, offset, exchange;  // the lanes' order
};

struct Block {
  LaunchRecord launch;
  int64_t place[3];
  int warps;
  Thread threads[kThreads];
  Warp warp[kThreads / kLanes];
  int ready[kThreads / kLanes];  // warps that can go on
  int num_ready, num_at_barrier, num_gone;
  int current_warp, current;
  uint32_t count_max;
  void* main;
  bool ended_by_fault;
  uint64_t random;
  int free_stacks[kStacks];
  int num_free_stacks;
};
Block block;

// xorshift64*.
uint64_t next_random() {
  uint64_t x = block.random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  block.random = x;
  return x * 0x2545f4914f6cdd1d;
}

// Without a seed lanes go in ascending order.
void shuffle_lanes(Warp& warp) {
  warp.next = 0;
  warp.factor = 1;
  warp.offset = warp.exchange = 0;
  if (block.launch.seed == 0) return;
  const uint64_t bits = next_random();
  warp.factor = static_cast<int>(bits >> 40 & 31) | 1;
  warp.offset = static_cast<int>(bits >> 45 & 31);
  warp.exchange = static_cast<int>(bits >> 50 & 31);
}
int lane_at(const Warp& warp, int turn) {
  return ((turn * warp.factor + warp.offset) & (kLanes - 1)) ^ warp.exchange;
}

bool same_site(const Site& a, const Site& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}
std::string site_text(const Site& site) {
  return std::string(site.file_name()) + ":" + std::to_string(site.line());
}
std::string where(const Thread& thread) {
  if (thread.state == State::kGone) return "has left the kernel";
  return std::string("waits ") +
         (thread.state == State::kAtBarrier ? "for the block" : "for the warp") + " at " +
         site_text(thread.site);
}

void report_difference(Fault fault, int a, int b) {
  block.current = b;
  report(fault, 0,
         "thread " + std::to_string(a) + " " + where(block.threads[a]) + ", thread " +
             std::to_string(b) + " " + where(block.threads[b]));
  block.ended_by_fault = true;
}

// What a warp all of whose lanes stopped does next.
enum class Next : uint8_t { kGoOn, kBarrier, kGone, kFault };
Next settle(int index) {
  Warp& warp = block.warp[index];
  Thread* const lanes = block.threads + index * kLanes;
  for (int lane = 1; lane < kLanes; ++lane) {
    const Thread &first = lanes[0], &other = lanes[lane];
    const bool same = first.state == other.state &&
                      (first.state == State::kGone ||
                       (same_site(first.site, other.site) && first.call == other.call));
    if (same) continue;
    const bool warp_call = first.state == State::kAtWarpCall || other.state == State::kAtWarpCall;
    report_difference(warp_call ? Fault::kDivergentWarp : Fault::kDivergentBarrier, index * kLanes,
                      index * kLanes + lane);
    return Next::kFault;
  }
  if (lanes[0].state == State::kGone) return Next::kGone;
  if (lanes[0].state == State::kAtBarrier) return Next::kBarrier;
  if (lanes[0].call == nullptr) {
    ++warp.count;  // a barrier; other calls of a warp order no memory
  } else {
    void* operands[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) operands[lane] = lanes[lane].operand;
    lanes[0].call(operands);
  }
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane].state = State::kReady;
  shuffle_lanes(warp);
  return Next::kGoOn;
}

void count_warp(const Warp& warp) {
  if (warp.count > block.count_max) block.count_max = warp.count;
  if (block.count_max + 2 >= kUnderWay) {
    report(Fault::kLaunch, 0, "a block passes more barriers than the emulation counts");
    block.ended_by_fault = true;
  }
}

// All warps wait: at one barrier, or the block is divergent.
void release_barrier() {
  for (int w = 1; w < block.warps; ++w)
    if (!same_site(block.threads[0].site, block.threads[w * kLanes].site)) {
      report_difference(Fault::kDivergentBarrier, 0, w * kLanes);
      return;
    }
  const uint32_t count = block.count_max + 1;
  running.barrier_count = count;
  block.num_at_barrier = 0;
  block.num_ready = block.warps;
  for (int w = 0; w < block.warps; ++w) {
    block.ready[w] = w;
    block.warp[w].count = count;
    for (int lane = 0; lane < kLanes; ++lane)
      block.threads[w * kLanes + lane].state = State::kReady;
    shuffle_lanes(block.warp[w]);
  }
}

void report_missing_warps() {
  int waiting = 0, gone = 0;
  for (int w = 0; w < block.warps; ++w) {
    if (block.threads[w * kLanes].state == State::kGone)
      gone = w * kLanes;
    else
      waiting = w * kLanes;
  }
  report_difference(Fault::kDivergentBarrier, gone, waiting);
}

// The warp that goes on next; false if none can.
bool choose_warp() {
  if (block.num_ready == 0 && block.num_at_barrier == block.warps) release_barrier();
  if (block.num_ready == 0 && block.num_gone < block.warps && !block.ended_by_fault)
    report_missing_warps();
  if (block.num_ready == 0 || block.ended_by_fault) return false;
  const int pick =
      block.launch.seed == 0 ? 0 : static_cast<int>((next_random() >> 33) % block.num_ready);
  block.current_warp = block.ready[pick];
  block.ready[pick] = block.ready[--block.num_ready];
  return true;
}

// The thread that runs next, or -1 at the block's end.
int choose_thread() {
  for (;;) {
    Warp& warp = block.warp[block.current_warp];
    while (warp.next < kLanes) {
      const int thread = block.current_warp * kLanes + lane_at(warp, warp.next++);
      if (block.threads[thread].state != State::kGone) return thread;
    }
    const Next next = settle(block.current_warp);
    count_warp(warp);
    if (next == Next::kFault || block.ended_by_fault) return -1;
    if (next == Next::kGoOn) {
      // Now and then another warp gets ahead.
      if (block.launch.seed == 0 || block.num_ready == 0 || (next_random() >> 60) != 0) continue;
      block.ready[block.num_ready++] = block.current_warp;
    } else {
      ++(next == Next::kBarrier ? block.num_at_barrier : block.num_gone);
    }
    if (!choose_warp()) return -1;
  }
}

void make_current(int thread) {
  block.current = thread;
  running.stamp =
      make_stamp(running.run, block.warp[block.current_warp].count, static_cast<uint32_t>(thread));
}

// What a fiber does: threads from their first statement to their last, one after the other.
void run_threads() {
  for (;;) {
    block.launch.invoke(block.launch.kernel, block.launch.params);
    land_all_copies();
    Thread& gone = block.threads[block.current];
    gone.state = State::kGone;
    const int next = choose_thread();
    if (next < 0) break;
    if (block.threads[next].state == State::kFresh) {
      block.threads[next].stack = gone.stack;
      make_current(next);
      continue;
    }
    block.free_stacks[block.num_free_stacks++] = gone.stack;
    make_current(next);
    void* unused;
    switch_context(&unused, block.threads[next].context);
  }
  void* unused;
  switch_context(&unused, block.main);
}

void* context_of(Thread& thread) {
  if (thread.state != State::kFresh) return thread.context;
  thread.stack = block.free_stacks[--block.num_free_stacks];
  return fresh_context(thread.stack, &run_threads);
}

// The running thread stops in the state it has.
void stop() {
  const int self = block.current;
  land_some_copies();
  const int next = choose_thread();
  if (next < 0) {
    void* unused;
    switch_context(&unused, block.main);
  }
  void* const to = next == self ? nullptr : context_of(block.threads[next]);
  make_current(next);
  if (next != self) switch_context(&block.threads[self].context, to);
}

void start_block(const LaunchRecord& launch, int64_t index) {
  block.place[0] = index % launch.grid[0];
  block.place[1] = index / launch.grid[0] % launch.grid[1];
  block.place[2] = index / launch.grid[0] / launch.grid[1];
  block.warps = launch.threads / kLanes;
  block.num_ready = block.warps;
  block.num_at_barrier = block.num_gone = 0;
  block.count_max = 0;
  running.run = running.launch_first + static_cast<uint32_t>(index);
  running.barrier_count = 0;
  for (int w = 0; w < block.warps; ++w) {
    block.ready[w] = w;
    block.warp[w].count = 0;
    shuffle_lanes(block.warp[w]);
  }
  for (int t = 0; t < launch.threads; ++t) {
    block.threads[t].state = State::kFresh;
    block.threads[t].call = nullptr;
  }
  block.num_free_stacks = 0;
  for (int s = kStacks; s-- > 0;) block.free_stacks[block.num_free_stacks++] = s;
}

}  // namespace

bool run_launch(const LaunchRecord& launch) {
  block.launch = launch;
  block.ended_by_fault = false;
  block.random = launch.seed | 1;
  set_shared_bytes(launch.shared_bytes);
  use_signal_stack();
  this_thread_runs_kernels = true;
  const int64_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
  for (int64_t i = 0; i < blocks && !block.ended_by_fault; ++i) {
    start_block(launch, i);
    choose_warp();
    const int first = choose_thread();
    void* const to = context_of(block.threads[first]);
    make_current(first);
    switch_context(&block.main, to);
  }
  this_thread_runs_kernels = false;
  return !block.ended_by_fault;
}

void wait_for_warp(WarpCall call, void* operand, const Site& site) {
  Thread& thread = block.threads[block.current];
  thread.state = State::kAtWarpCall;
  thread.call = call;
  thread.operand = operand;
  thread.site = site;
  stop();
}

void sync_block(Site site) {
  Thread& thread = block.threads[block.current];
  thread.state = State::kAtBarrier;
  thread.call = nullptr;
  thread.site = site;
  stop();
}

void end_kernel() {
  block.ended_by_fault = true;
  void* unused;
  switch_context(&unused, block.main);
  __builtin_unreachable();
}

Place running_place() {
  return {block.launch.name, {block.place[0], block.place[1], block.place[2]}, block.current};
}
bool inside_kernel() { return this_thread_runs_kernels; }
uint64_t draw() { return block.launch.seed == 0 ? 0 : next_random() >> 8; }

int thread_index() { return block.current; }
int block_threads() { return block.launch.threads; }
int64_t block_place(int dimension) { return block.place[dimension]; }
int64_t grid_size(int dimension) { return block.launch.grid[dimension]; }
void* shared_memory(size_t offset) { return reinterpret_cast<void*>(kSharedBase + offset); }

}  // namespace rl::emulated
