// The language of kernels: what a kernel may use besides plain C++. The emulated build has a header
// of the same name, found first, with the same functions; so a kernel that compiles here runs
// there.
//
// - A kernel is `RL_KERNEL void name(Params p)`: one parameter, a plain struct. It is started by
//   launch() (device/cuda/lang/launch.h), never with chevrons.
// - Blocks are one-dimensional: at most 1024 threads, a multiple of 32. Grids have up to three
//   dimensions.
// - All shared memory is dynamic and reached through shared_at(); its layout is the kernel's.
// - Warp functions are called by all 32 lanes together. No lane leaves a kernel before the last
//   one, and no thread before the last sync_block().
// - No float atomics, no cooperative launch, no dynamic parallelism, no textures, no static
//   shared memory, no device globals.
#pragma once
#include <cstddef>
#include <cstdint>

#define RL_KERNEL __global__
#define RL_DEVICE __device__ __forceinline__
// At most this many threads in a block, and at least so many blocks on a multiprocessor.
#define RL_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)

namespace rl::cuda {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

RL_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
RL_DEVICE int block_threads() { return static_cast<int>(blockDim.x); }
RL_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) % kLanes; }
RL_DEVICE int warp_index() { return static_cast<int>(threadIdx.x) / kLanes; }
RL_DEVICE int block_warps() { return static_cast<int>(blockDim.x) / kLanes; }
RL_DEVICE int64_t block_x() { return blockIdx.x; }
RL_DEVICE int64_t block_y() { return blockIdx.y; }
RL_DEVICE int64_t block_z() { return blockIdx.z; }
RL_DEVICE int64_t grid_x() { return gridDim.x; }
RL_DEVICE int64_t grid_y() { return gridDim.y; }
RL_DEVICE int64_t grid_z() { return gridDim.z; }

// The block's shared memory from byte `offset` on, which is aligned for T; the block's own start is
// aligned to 128 bytes.
template <typename T>
RL_DEVICE T* shared_at(size_t offset) {
  extern __shared__ __align__(128) unsigned char rl_shared_memory[];
  return reinterpret_cast<T*>(rl_shared_memory + offset);
}

// Every thread of the block waits; what each wrote is visible to all.
RL_DEVICE void sync_block() { __syncthreads(); }
// The same for the warp.
RL_DEVICE void sync_warp() { __syncwarp(kAllLanes); }

// The value that `lane` passes, or that the lane at distance `mask` or `delta` passes. T has 4 or 8
// bytes. shuffle_down returns a lane's own value where lane + delta is past the last.
template <typename T>
RL_DEVICE T shuffle(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
template <typename T>
RL_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
template <typename T>
RL_DEVICE T shuffle_down(T value, int delta) {
  return __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(delta));
}
// Bit l is lane l's predicate.
RL_DEVICE uint32_t ballot(bool predicate) { return __ballot_sync(kAllLanes, predicate); }
// The lowest bit that is set, or 32 for none. std::countr_zero() is no function of kernels: nvcc
// 13.0 makes it 32 for every value.
RL_DEVICE int lowest_bit(uint32_t bits) {
  return __clz(static_cast<int>(__brev(static_cast<unsigned>(bits))));
}

}  // namespace rl::cuda
