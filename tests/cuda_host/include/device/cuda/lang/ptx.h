// The wrappers of src/device/cuda/lang/ptx.h on the emulated GPU. A product of tiles has one order
// of its own: each element of d adds its 16 products one after the other, ascending along k.
#pragma once
#include <cstdint>

#include "device/cuda/lang/kernel.h"

namespace rl::emulated {

void multiply_tiles(float* d, const uint32_t* a, const uint32_t* b, Site site);
void load_tiles(uint32_t* to, const void* shared_row, bool transposed, Site site);
uint32_t shared_address(const void* shared);
void copy_async_16(void* shared, const void* global);
void commit_copies();
void wait_copies(int pending);

}  // namespace rl::emulated

namespace rl::cuda {

RL_DEVICE void mma_bf16_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                emulated::Site site = emulated::Site::current()) {
  emulated::multiply_tiles(d, a, b, site);
}

RL_DEVICE uint32_t shared_address(const void* shared) { return emulated::shared_address(shared); }

RL_DEVICE void load_tiles(uint32_t (&to)[4], const void* shared_row,
                          emulated::Site site = emulated::Site::current()) {
  emulated::load_tiles(to, shared_row, false, site);
}
RL_DEVICE void load_tiles_transposed(uint32_t (&to)[4], const void* shared_row,
                                     emulated::Site site = emulated::Site::current()) {
  emulated::load_tiles(to, shared_row, true, site);
}

RL_DEVICE void copy_async_16(void* shared, const void* global) {
  emulated::copy_async_16(shared, global);
}
RL_DEVICE void commit_copies() { emulated::commit_copies(); }
template <int pending>
RL_DEVICE void wait_copies() {
  static_assert(pending >= 0);
  emulated::wait_copies(pending);
}

}  // namespace rl::cuda
