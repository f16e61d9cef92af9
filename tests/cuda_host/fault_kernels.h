// Kernels with one fault each, which the emulation must find, and without it, which must be clean.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rl::cuda::faults {

struct FaultParams {
  bool faulty;
  float* to;          // (count)
  const float* from;  // (count)
  int64_t count;      // 64: a block of two warps
};
// Starts the kernel of the check with this name, one of fault_kernels().
void start(const std::string& check, cudaStream_t stream, const FaultParams& params);
std::vector<std::string> fault_kernels();

}  // namespace rl::cuda::faults
