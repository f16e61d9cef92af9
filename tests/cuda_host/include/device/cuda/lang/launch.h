// launch() on the emulated GPU: it makes the kernel known to the emulation, with a function that
// calls it, and then starts it as the real one does.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/cuda_calls.h"
#include "device/cuda/lang/kernel.h"

namespace rl::emulated {

// A kernel by the address of its function. `invoke` calls it with a copy of its parameter.
struct KernelEntry {
  const char* name;
  size_t params_bytes;
  void (*invoke)(const void* kernel, const void* params);
};
void register_kernel(const void* kernel, const KernelEntry& entry);

template <typename Params>
__attribute__((no_sanitize("thread"))) void invoke_kernel(const void* kernel, const void* params) {
  reinterpret_cast<void (*)(Params)>(const_cast<void*>(kernel))(
      *static_cast<const Params*>(params));
}

}  // namespace rl::emulated

namespace rl::cuda {

struct LaunchShape {
  int64_t grid_x;
  int threads;
  uint64_t shared_bytes = 0;
  int64_t grid_y = 1, grid_z = 1;
};

template <typename Params>
void launch(const char* name, void (*kernel)(Params), const LaunchShape& shape, cudaStream_t stream,
            Params params) {
  const void* const address = reinterpret_cast<const void*>(kernel);
  emulated::register_kernel(address, {name, sizeof(Params), &emulated::invoke_kernel<Params>});
  launch_kernel({name, address, shape.threads, shape.grid_x, shape.grid_y, shape.grid_z,
                 shape.shared_bytes, stream},
                &params);
}

}  // namespace rl::cuda
