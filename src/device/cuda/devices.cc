// Enumeration starts the driver but makes no context, so it takes no memory of a device.
#include "device/cuda/devices.h"

#include "device/cuda/cuda_calls.h"

namespace rl::cuda {
namespace {

std::string version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

[[noreturn]] void fail_without_devices(cudaError_t status) {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaGetLastError());
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) {
    throw Error(Code::kUnsupported, "cuda: unavailable, because this machine has no NVIDIA driver")
        .with_system_code(static_cast<int32_t>(status));
  }
  if (status == cudaErrorInsufficientDriver) {
    throw Error(Code::kUnsupported,
                str("cuda: unavailable, because the driver of this machine serves CUDA ",
                    version_text(driver), " and the library needs ", version_text(runtime)))
        .with_system_code(static_cast<int32_t>(status));
  }
  throw Error(Code::kUnsupported,
              str("cuda: unavailable, because the driver shows no device: ",
                  cudaGetErrorName(status), " (", cudaGetErrorString(status), ")"))
      .with_system_code(static_cast<int32_t>(status));
}

// Code of an architecture runs on those of the same major and no lower minor; of 9.0 ("sm_90a") on
// that one alone.
struct CodeFor {
  int major, minor;
  bool alone;
};
constexpr CodeFor kCode[] = {RL_CUDA_CODE_FOR};

void require_code_for(const GpuFacts& facts, int index) {
  std::string known;
  for (const CodeFor& code : kCode) {
    if (facts.major == code.major &&
        (code.alone ? facts.minor == code.minor : facts.minor >= code.minor)) {
      return;
    }
    known += str(known.empty() ? "" : ", ", code.major, ".", code.minor,
                 code.alone ? "" : " and later minors");
  }
  throw Error(Code::kUnsupported, str("cuda: unavailable, because device ", index, " (", facts.name,
                                      ") has architecture ", facts.major, ".", facts.minor,
                                      " and the library has code for ", known));
}

}  // namespace

std::vector<GpuFacts> list_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) fail_without_devices(status);
  if (count == 0) fail_without_devices(cudaErrorNoDevice);
  std::vector<GpuFacts> out;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p;
    RL_CUDA(cudaGetDeviceProperties(&p, i), "device ", i);
    out.push_back({p.name, p.totalGlobalMem, p.major, p.minor});
  }
  return out;
}

void require_device(int index) {
  const std::vector<GpuFacts> devices = list_devices();
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
    throw Error(Code::kUnsupported, str("cuda: unavailable, because there is no device ", index,
                                        "; this machine has ", devices.size()))
        .with_key("runtime.device_index");
  }
  require_code_for(devices[static_cast<size_t>(index)], index);
}

}  // namespace rl::cuda
