// The emulated GPU as the device of models and runtimes, with small reservations.
#pragma once
#include "cuda_host/emulator.h"
#include "device/cpu/executors.h"
#include "ops/cuda/cuda_device.h"
#include "pipeline/session/runtime.h"

namespace rl::testing {

inline const Device& emulated_gpu() {
  static const cuda::CudaDevice device(
      0, {.scratch_bytes = uint64_t{16} << 20, .staging_bytes = uint64_t{1} << 20});
  return device;
}

inline RuntimeSeams seams_on(const Device& device) {
  RuntimeSeams seams;
  seams.executor = make_thread_executor(1);
  seams.device = &device;
  return seams;
}

}  // namespace rl::testing
