// What every call of the emulated runtime goes through: one lock, the count of calls, the injected
// failure, and the fault that lost the device.
#pragma once
#include <cuda_runtime_api.h>

#include <mutex>

#include "cuda_host/emulator.h"

namespace rl::emulated {

// Holds the lock during a call. `status` is what the call must return without doing anything, if it
// is not success.
class Call {
 public:
  explicit Call(const char* name);
  Call(const Call&) = delete;
  cudaError_t status = cudaSuccess;
  // Returns the error and keeps it for cudaGetLastError().
  cudaError_t fail(cudaError_t error);

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

std::recursive_mutex& emulator_mutex();
const DeviceShape& device_shape();
uint64_t emulator_seed();
// From now on every call returns the error: what CUDA does after a fault in a kernel.
void lose_device(cudaError_t error);
bool device_lost();
cudaError_t last_error(bool clear);

}  // namespace rl::emulated

#define RL_EMULATED_CALL()             \
  ::rl::emulated::Call call(__func__); \
  if (call.status != cudaSuccess) return call.status
