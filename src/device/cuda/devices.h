// The GPUs of this machine, and whether the library has code for them.
#pragma once
#include <vector>

#include "device/plugin/cuda_plugin.h"

namespace rl::cuda {

// In the order of CUDA's indices. Error(kUnsupported) saying what is absent: the driver, its
// version, or a device.
std::vector<GpuFacts> list_devices();

// Error(kUnsupported), as above, if there is no device of this index, or no code for its
// architecture.
void require_device(int index);

}  // namespace rl::cuda
