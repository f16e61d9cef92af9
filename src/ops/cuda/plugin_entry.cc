// The one function that librl_cuda.so exports. Devices are made when they are asked for and never
// destroyed, because a Compute refers to its device for as long as it lives.
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "device/cuda/blas_library.h"
#include "device/cuda/devices.h"
#include "device/plugin/cuda_plugin.h"
#include "ops/cuda/cuda_device.h"

namespace rl::cuda {
namespace {

const Device& device_of(int index, bool ranges) {
  require_device(index);
  static_cast<void>(blas_symbols());
  static std::mutex mutex;
  static auto& devices = *new std::map<std::pair<int, bool>, std::unique_ptr<CudaDevice>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudaDevice>& device = devices[{index, ranges}];
  if (device == nullptr) {
    CudaOptions options;
    if (ranges) options.ranges = nvtx_functions();
    device = std::make_unique<CudaDevice>(index, options);
  }
  return *device;
}

constexpr CudaPlugin kPlugin = {
    {sizeof(CudaPlugin), sizeof(OpTable), RL_VERSION_TEXT, __VERSION__}, list_devices, device_of};

}  // namespace
}  // namespace rl::cuda

extern "C" __attribute__((visibility("default"))) const rl::CudaPlugin* rl_cuda_plugin() {
  return &rl::cuda::kPlugin;
}
