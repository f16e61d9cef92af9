// A map by the address of the kernel's function; entries stay for the life of the process.
#include "cuda_host/kernels_known.h"

#include <map>

#include "cuda_host/api_calls.h"
#include "device/cuda/lang/launch.h"

namespace rl::emulated {
namespace {

std::map<const void*, KnownKernel>& kernels() {
  static std::map<const void*, KnownKernel> all;
  return all;
}

}  // namespace

void register_kernel(const void* kernel, const KernelEntry& entry) {
  const std::lock_guard lock(emulator_mutex());
  kernels().try_emplace(kernel, KnownKernel{entry.name, entry.params_bytes, entry.invoke});
}

KnownKernel* known_kernel(const void* kernel) {
  const auto found = kernels().find(kernel);
  return found == kernels().end() ? nullptr : &found->second;
}

void forget_kernel_counts() {
  for (auto& [address, kernel] : kernels()) kernel.launches = kernel.blocks = 0;
}

std::vector<KernelCount> kernel_counts() {
  const std::lock_guard lock(emulator_mutex());
  std::vector<KernelCount> counts;
  for (const auto& [address, kernel] : kernels())
    if (kernel.launches > 0) counts.push_back({kernel.name, kernel.launches, kernel.blocks});
  return counts;
}

}  // namespace rl::emulated
