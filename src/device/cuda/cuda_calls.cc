// How a status of CUDA becomes an Error. The lists are numbers of the runtime API: they do not
// change, and newer ones have no name in the headers of older toolkits.
#include "device/cuda/cuda_calls.h"

#include <algorithm>
#include <iterator>

namespace rl::cuda {
namespace {

// Uncorrectable errors of memory and links, addresses, timeouts, asserts, stacks, instructions,
// failed launches and contained faults.
constexpr int kFaults[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 720, 721};
// The driver is too old, absent or of another build; no device, not this one, or one that cannot do
// it.
constexpr int kAbsent[] = {35, 34, 36, 46, 100, 101, 209, 222, 801, 803, 804};

bool has(const int* first, const int* last, cudaError_t status) {
  return std::find(first, last, static_cast<int>(status)) != last;
}

Code code_of(cudaError_t status) {
  if (is_fault(status)) return Code::kDeviceLost;
  if (status == cudaErrorMemoryAllocation) return Code::kOutOfMemory;
  if (has(std::begin(kAbsent), std::end(kAbsent), status)) return Code::kUnsupported;
  return Code::kInternal;
}

// What the device has left, for errors; a device that is absent or lost says nothing.
std::string free_memory(Code code) {
  if (code == Code::kDeviceLost || code == Code::kUnsupported) return "";
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "";
  return str("; ", free, " of ", total, " bytes of the device are free");
}

}  // namespace

bool is_fault(cudaError_t status) { return has(std::begin(kFaults), std::end(kFaults), status); }

void fail_call(cudaError_t status, const char* statement, const std::string& detail) {
  const Code code = code_of(status);
  // Clears the error of this thread, which a later launch would report again.
  if (code != Code::kDeviceLost) static_cast<void>(cudaGetLastError());
  throw Error(code, str("cuda: ", statement, detail.empty() ? "" : ", ", detail, ": ",
                        cudaGetErrorName(status), " (", cudaGetErrorString(status), ")",
                        code == Code::kDeviceLost ? "; the device is lost to this process" : "",
                        free_memory(code)))
      .with_system_code(static_cast<int32_t>(status));
}

}  // namespace rl::cuda
