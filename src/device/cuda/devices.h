// The GPUs of this machine, and whether the library has code for them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rl::cuda {

struct DeviceFacts {
  std::string name;
  uint64_t memory_bytes;
  int major, minor;  // of the architecture
};

// In the order of CUDA's indices. Error(kUnsupported) saying what is absent: the driver, its
// version, or a device.
std::vector<DeviceFacts> list_devices();

// Error(kUnsupported) if there is no code for the device's architecture, naming those there are.
void require_code_for(const DeviceFacts& facts, int index);

}  // namespace rl::cuda
