// Each kernel is correct unless `faulty` is set; then it has the one fault that its name says.
#include "cuda_host/fault_kernels.h"
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "device/cuda/lang/ptx.h"

namespace rl::cuda::faults {
namespace {

// Reads one element past the end.
RL_KERNEL void read_past_end(FaultParams p) {
  const int i = thread_index();
  p.to[i] = p.from[p.faulty ? i + 1 : i];
}
RL_KERNEL void write_before_start(FaultParams p) {
  const int i = thread_index();
  p.to[p.faulty ? i - 1 : i] = 1;
}
// Shared memory has room for one value of each thread.
RL_KERNEL void shared_past_end(FaultParams p) {
  float* const values = shared_at<float>(0);
  values[thread_index() + (p.faulty ? 1 : 0)] = 2;
  sync_block();
  p.to[thread_index()] = 1;
}
RL_KERNEL void read_unwritten(FaultParams p) {
  const int i = thread_index();
  if (!p.faulty) p.to[i] = p.from[i];
  p.to[i] = p.to[i] + 1;
}
RL_KERNEL void shared_unwritten(FaultParams p) {
  float* const values = shared_at<float>(0);
  if (!p.faulty || thread_index() != 3) values[thread_index()] = 1;
  sync_block();
  p.to[thread_index()] = values[thread_index()];
}
// A thread reads what a thread of another warp wrote.
RL_KERNEL void no_sync_block(FaultParams p) {
  float* const values = shared_at<float>(0);
  values[thread_index()] = p.from[thread_index()];
  if (!p.faulty) sync_block();
  p.to[thread_index()] = values[(thread_index() + kLanes) % block_threads()];
}
// A thread reads what another lane of its warp wrote. A shuffle orders no memory.
RL_KERNEL void no_sync_warp(FaultParams p) {
  float* const values = shared_at<float>(0);
  values[thread_index()] = p.from[thread_index()];
  const float other = shuffle_xor(1.0f, 1);
  if (!p.faulty) sync_warp();
  p.to[thread_index()] = other * values[thread_index() ^ 1];
}
// The next round overwrites what a slower warp still reads.
RL_KERNEL void no_second_barrier(FaultParams p) {
  float* const value = shared_at<float>(0);
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (thread_index() == 0) *value = p.from[round];
    sync_block();
    sum += *value;
    if (!p.faulty) sync_block();
  }
  p.to[thread_index()] = sum;
}
// Two blocks write one element.
RL_KERNEL void blocks_overlap(FaultParams p) {
  const int64_t i = block_x() * (p.faulty ? kLanes - 1 : kLanes) + thread_index();
  p.to[i] = 1;
}
// A block reads what another one writes.
RL_KERNEL void blocks_depend(FaultParams p) {
  const int64_t i = block_x() * kLanes + thread_index();
  p.to[i] = 1;
  if (p.faulty && block_x() == 1) p.to[i] = p.to[i - kLanes];
}
// Adjacent elements of two bytes belong to different threads.
RL_KERNEL void halves(FaultParams p) {
  bf16* const to = reinterpret_cast<bf16*>(p.to);
  const int i = thread_index();
  to[i] = to_bf16(1);
  sync_block();
  if (p.faulty)
    p.to[i / 2] = 1;  // two threads, one word
  else
    to[i] = to_bf16(2);
}
RL_KERNEL void some_threads_sync(FaultParams p) {
  if (!p.faulty || warp_index() == 0) sync_block();
  p.to[thread_index()] = 1;
}
RL_KERNEL void barriers_differ(FaultParams p) {
  if (!p.faulty || warp_index() == 0)
    sync_block();
  else
    sync_block();
  p.to[thread_index()] = 1;
}
RL_KERNEL void some_lanes_shuffle(FaultParams p) {
  float value = 1;
  if (!p.faulty || lane_index() < 30) value = shuffle_xor(value, 2);
  p.to[thread_index()] = value;
}
RL_KERNEL void lanes_leave(FaultParams p) {
  p.to[thread_index()] = 1;
  if (p.faulty && lane_index() == 7) return;
  sync_warp();
}
RL_KERNEL void no_such_lane(FaultParams p) {
  p.to[thread_index()] = shuffle(1.0f, p.faulty ? kLanes : kLanes - 1);
}
RL_KERNEL void misaligned(FaultParams p) {
  const std::byte* const from = reinterpret_cast<const std::byte*>(p.from) + (p.faulty ? 2 : 0);
  p.to[thread_index()] = *reinterpret_cast<const float*>(from);
}
// Each thread copies 16 bytes and reads its own.
RL_KERNEL void no_wait_for_copy(FaultParams p) {
  float* const values = shared_at<float>(0);
  const int first = thread_index() * 4;
  if (thread_index() >= 16) return;
  copy_async_16(values + first, p.from + first);
  commit_copies();
  if (p.faulty)
    wait_copies<1>();
  else
    wait_copies<0>();
  p.to[first] = values[first];
}
// A copy that is complete for its thread is not yet so for others.
RL_KERNEL void no_barrier_after_copy(FaultParams p) {
  float* const values = shared_at<float>(0);
  if (thread_index() < 16) copy_async_16(values + thread_index() * 4, p.from + thread_index() * 4);
  commit_copies();
  wait_copies<0>();
  if (!p.faulty) sync_block();
  p.to[thread_index()] = values[thread_index()];
}
RL_KERNEL void tiles_past_end(FaultParams p) {
  bf16* const values = shared_at<bf16>(0);  // 64 floats: 16 rows of 8
  for (int i = thread_index(); i < 128; i += block_threads()) values[i] = to_bf16(1);
  sync_block();
  uint32_t tiles[4];
  load_tiles(tiles, values + (p.faulty ? lane_index() : lane_index() % 16) * 8);
  p.to[thread_index()] = static_cast<float>(tiles[0]);
}

struct Check {
  const char* name;
  void (*kernel)(FaultParams);
  int64_t blocks;
  int threads;
};
constexpr Check kChecks[] = {
    {"read_past_end", read_past_end, 1, 64},
    {"write_before_start", write_before_start, 1, 64},
    {"shared_past_end", shared_past_end, 1, 64},
    {"read_unwritten", read_unwritten, 1, 64},
    {"shared_unwritten", shared_unwritten, 1, 64},
    {"no_sync_block", no_sync_block, 1, 64},
    {"no_sync_warp", no_sync_warp, 1, 64},
    {"no_second_barrier", no_second_barrier, 1, 64},
    {"blocks_overlap", blocks_overlap, 2, 32},
    {"blocks_depend", blocks_depend, 2, 32},
    {"halves", halves, 1, 64},
    {"some_threads_sync", some_threads_sync, 1, 64},
    {"barriers_differ", barriers_differ, 1, 64},
    {"some_lanes_shuffle", some_lanes_shuffle, 1, 64},
    {"lanes_leave", lanes_leave, 1, 64},
    {"no_such_lane", no_such_lane, 1, 64},
    {"misaligned", misaligned, 1, 32},
    {"no_wait_for_copy", no_wait_for_copy, 1, 64},
    {"no_barrier_after_copy", no_barrier_after_copy, 1, 64},
    {"tiles_past_end", tiles_past_end, 1, 64},
};

}  // namespace

void start(const std::string& check, cudaStream_t stream, const FaultParams& params) {
  for (const Check& known : kChecks)
    if (check == known.name)
      launch(known.name, known.kernel, {known.blocks, known.threads, 64 * sizeof(float)}, stream,
             params);
}

std::vector<std::string> fault_kernels() {
  std::vector<std::string> names;
  for (const Check& known : kChecks) names.push_back(known.name);
  return names;
}

}  // namespace rl::cuda::faults
