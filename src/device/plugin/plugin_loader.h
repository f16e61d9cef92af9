// Loads librl_cuda.so.N (device/plugin/plugin_file.h).
#pragma once
#include <string>

#include "device/plugin/cuda_plugin.h"

namespace rl {

// `op_table_bytes` is sizeof(OpTable), which lies above this layer. Error(kNotInBuild) if there is
// no plugin, with its path; kIncompatible if it is of another version. Any thread.
const CudaPlugin& cuda_plugin(uint32_t op_table_bytes);

// The plugin of this path, for tests.
const CudaPlugin& load_cuda_plugin(const std::string& path, uint32_t op_table_bytes);

}  // namespace rl
