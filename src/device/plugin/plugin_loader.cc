#include "device/plugin/plugin_loader.h"

namespace rl {
namespace {

constexpr PluginFile kCuda{"cuda", kCudaPluginEntry, "runtime.device"};

}  // namespace

const CudaPlugin& load_cuda_plugin(const std::string& path, uint32_t op_table_bytes) {
  return reinterpret_cast<const CudaPlugin&>(
      load_plugin(kCuda, path, sizeof(CudaPlugin), op_table_bytes));
}

const CudaPlugin& cuda_plugin(uint32_t op_table_bytes) {
  static const CudaPlugin& plugin = load_cuda_plugin(plugin_path(kCuda), op_table_bytes);
  return plugin;
}

}  // namespace rl
