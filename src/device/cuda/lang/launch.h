// The one way to start a kernel. The emulated build has a header of the same name.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/cuda_calls.h"
#include "device/cuda/lang/kernel.h"

namespace rl::cuda {

struct LaunchShape {
  int64_t grid_x;
  int threads;  // of a block: a multiple of 32
  uint64_t shared_bytes = 0;
  int64_t grid_y = 1, grid_z = 1;
};

// Starts the kernel in the stream. A grid without blocks starts nothing. An Error with the kernel's
// name and shape if the device refuses it.
template <typename Params>
void launch(const char* name, void (*kernel)(Params), const LaunchShape& shape, cudaStream_t stream,
            Params params) {
  launch_kernel({name, reinterpret_cast<const void*>(kernel), shape.threads, shape.grid_x,
                 shape.grid_y, shape.grid_z, shape.shared_bytes, stream},
                &params);
}

}  // namespace rl::cuda
