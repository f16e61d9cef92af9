// The driver's calls that map memory to addresses: the runtime has none. They are found by name in
// libcuda.so.1, which the runtime has opened, so that nothing links to it. Every call goes through
// RL_DRIVER().
#pragma once
#include <cuda.h>

#include "device/cuda/cuda_calls.h"

namespace rl::cuda {

#define RL_DRIVER_FUNCTIONS(OP) \
  OP(MemAddressReserve)         \
  OP(MemAddressFree)            \
  OP(MemCreate)                 \
  OP(MemRelease)                \
  OP(MemMap)                    \
  OP(MemUnmap)                  \
  OP(MemSetAccess)              \
  OP(MemGetAllocationGranularity)

struct DriverFunctions {
#define RL_DRIVER_ENTRY(name) decltype(&cu##name) name = nullptr;
  RL_DRIVER_FUNCTIONS(RL_DRIVER_ENTRY)
#undef RL_DRIVER_ENTRY
};

// Error(kUnsupported) if there is no driver, or an old one that lacks a function. Any thread.
const DriverFunctions& driver();

// The function of this name, or null. The emulated build has its own in place of driver_open.cc.
void* driver_symbol(const char* name);

}  // namespace rl::cuda

// As RL_CUDA of cuda_calls.h: the statuses of driver and runtime have the same numbers.
#define RL_DRIVER(statement, ...)                                                  \
  do {                                                                             \
    const auto rl_driver_status = static_cast<cudaError_t>(statement);             \
    if (rl_driver_status != cudaSuccess) [[unlikely]]                              \
      ::rl::cuda::fail_call(rl_driver_status, #statement, ::rl::str(__VA_ARGS__)); \
  } while (0)
