// Libraries for plugin_loader_test.cc: plugins of the version that the build passes.
#include "core/error.h"
#include "device/plugin/cuda_plugin.h"

namespace {

std::vector<rl::GpuFacts> no_devices() {
  throw rl::Error(rl::Code::kUnsupported, "no devices here");
}

constexpr rl::CudaPlugin kPlugin = {
    {sizeof(rl::CudaPlugin), 80, RL_PLUGIN_VERSION, __VERSION__}, no_devices, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rl::CudaPlugin* RL_PLUGIN_ENTRY() {
  return &kPlugin;
}
