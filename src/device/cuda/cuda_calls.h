// The one place that every CUDA call goes through: RL_CUDA(cudaMemcpyAsync(...), bytes, " bytes").
// A call that fails becomes an Error with the statement, what follows it, and the free memory of
// the device.
//
// A fault that ends the context of the device (an illegal address, a failed launch) is
// Error(kDeviceLost); CUDA then fails every later call of the process on that device in the same
// way. A want of memory is kOutOfMemory, an absent driver or device kUnsupported, anything else
// kInternal.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "core/error.h"

namespace rl::cuda {

// Whether the status says that the device is lost to this process.
bool is_fault(cudaError_t status);

[[noreturn]] void fail_call(cudaError_t status, const char* statement, const std::string& detail);

// Starts kernel(params) in the stream; params points at the kernel's one parameter. Raises the
// kernel's limit of dynamic shared memory first. A grid without blocks starts nothing. The error
// has the name and the shape.
struct KernelStart {
  const char* name;
  const void* kernel;
  int threads;
  int64_t grid_x, grid_y, grid_z;
  uint64_t shared_bytes;
  cudaStream_t stream;
};
void launch_kernel(const KernelStart& start, void* params);

}  // namespace rl::cuda

// Throws what fail_call() makes of a status other than success. What follows the statement is
// joined as text.
#define RL_CUDA(statement, ...)                                                  \
  do {                                                                           \
    const cudaError_t rl_cuda_status = (statement);                              \
    if (rl_cuda_status != cudaSuccess) [[unlikely]]                              \
      ::rl::cuda::fail_call(rl_cuda_status, #statement, ::rl::str(__VA_ARGS__)); \
  } while (0)
