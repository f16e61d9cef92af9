// The language of kernels on the emulated GPU: the functions of src/device/cuda/lang/kernel.h in
// plain C++. Functions that wait pass the place of their call, which reports name and by which
// lanes that wait at different places are found.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

#define RL_KERNEL
#define RL_DEVICE inline __attribute__((always_inline))
#define RL_BOUNDS(threads, blocks)

// What the emulation does for a thread of a kernel (block_run.cc, warp_calls.cc). What a function
// marked const returns stays the same as long as the thread lives.
namespace rl::emulated {

using Site = std::source_location;
enum class Exchange : uint8_t { kFrom, kXor, kDown };

__attribute__((const)) int thread_index();
__attribute__((const)) int block_threads();
__attribute__((const)) int64_t block_place(int dimension);
__attribute__((const)) int64_t grid_size(int dimension);
__attribute__((const)) void* shared_memory(size_t offset);
void sync_block(Site site);
void sync_warp(Site site);
uint64_t exchange(Exchange how, uint64_t value, int argument, Site site);
uint32_t ballot(bool predicate, Site site);

template <typename T>
inline __attribute__((always_inline)) T exchange_value(Exchange how, T value, int argument,
                                                       Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const uint64_t bits = exchange(how, std::bit_cast<Bits>(value), argument, site);
  return std::bit_cast<T>(static_cast<Bits>(bits));
}

}  // namespace rl::emulated

namespace rl::cuda {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

RL_DEVICE int thread_index() { return emulated::thread_index(); }
RL_DEVICE int block_threads() { return emulated::block_threads(); }
RL_DEVICE int lane_index() { return emulated::thread_index() % kLanes; }
RL_DEVICE int warp_index() { return emulated::thread_index() / kLanes; }
RL_DEVICE int block_warps() { return emulated::block_threads() / kLanes; }
RL_DEVICE int64_t block_x() { return emulated::block_place(0); }
RL_DEVICE int64_t block_y() { return emulated::block_place(1); }
RL_DEVICE int64_t block_z() { return emulated::block_place(2); }
RL_DEVICE int64_t grid_x() { return emulated::grid_size(0); }
RL_DEVICE int64_t grid_y() { return emulated::grid_size(1); }
RL_DEVICE int64_t grid_z() { return emulated::grid_size(2); }

template <typename T>
RL_DEVICE T* shared_at(size_t offset) {
  return static_cast<T*>(emulated::shared_memory(offset));
}

RL_DEVICE void sync_block(emulated::Site site = emulated::Site::current()) {
  emulated::sync_block(site);
}
RL_DEVICE void sync_warp(emulated::Site site = emulated::Site::current()) {
  emulated::sync_warp(site);
}

template <typename T>
RL_DEVICE T shuffle(T value, int lane, emulated::Site site = emulated::Site::current()) {
  return emulated::exchange_value(emulated::Exchange::kFrom, value, lane, site);
}
template <typename T>
RL_DEVICE T shuffle_xor(T value, int mask, emulated::Site site = emulated::Site::current()) {
  return emulated::exchange_value(emulated::Exchange::kXor, value, mask, site);
}
template <typename T>
RL_DEVICE T shuffle_down(T value, int delta, emulated::Site site = emulated::Site::current()) {
  return emulated::exchange_value(emulated::Exchange::kDown, value, delta, site);
}
RL_DEVICE uint32_t ballot(bool predicate, emulated::Site site = emulated::Site::current()) {
  return emulated::ballot(predicate, site);
}
RL_DEVICE int lowest_bit(uint32_t bits) { return std::countr_zero(bits); }

}  // namespace rl::cuda
