// What tests ask of the emulation, where there is a GPU in its place: a test begins when the device
// has nothing left to do, and seeds change nothing.
#include <cuda_runtime_api.h>

#include "cuda_host/emulator.h"
#include "device/cuda/cuda_calls.h"

namespace rl::emulated {

void restart(uint64_t) { RL_CUDA(cudaDeviceSynchronize()); }

Live live() {
  size_t free = 0, total = 0;
  RL_CUDA(cudaMemGetInfo(&free, &total));
  return {.device_bytes = total - free};
}

}  // namespace rl::emulated
