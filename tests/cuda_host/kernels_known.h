// The kernels that launch() made known, with their limits of shared memory and how often each ran.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_host/emulator.h"

namespace rl::emulated {

struct KnownKernel {
  const char* name;
  size_t params_bytes;
  void (*invoke)(const void* kernel, const void* params);
  uint64_t shared_bytes_max = 48 << 10;  // until cudaFuncSetAttribute() raises it
  int64_t launches = 0, blocks = 0;
};
// Null if launch() never named it.
KnownKernel* known_kernel(const void* kernel);
void forget_kernel_counts();

}  // namespace rl::emulated
