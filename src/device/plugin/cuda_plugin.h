// What librl_cuda.so gives to librl: one function, rl_cuda_plugin(), which returns this record.
// Both are built from one source tree by one compiler and share its C++ runtime, so objects and
// exceptions cross between them. The plugin has copies of the few functions below the ops that it
// calls; they keep no state.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device/plugin/plugin_file.h"

namespace rl {

class Device;

struct GpuFacts {
  std::string name;
  uint64_t memory_bytes;
  int major, minor;  // of the architecture
};

struct CudaPlugin {
  PluginIdentity identity;
  // In the order of CUDA's indices. Error(kUnsupported) saying what is absent: the driver, its
  // version, or a device.
  std::vector<GpuFacts> (*devices)();
  // Lives as long as the library. `ranges`: each op is a range that a profiler shows.
  // Error(kUnsupported) as above, for an index that no device has, and for an architecture without
  // code; kNotInBuild if cublasLt is not installed.
  const Device& (*device)(int index, bool ranges);
};

inline constexpr const char* kCudaPluginEntry = "rl_cuda_plugin";

}  // namespace rl
