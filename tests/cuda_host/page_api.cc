// The driver's calls that map memory to addresses. Like cudaFree(), unmapping does not wait for
// work that still uses the memory: such work is reported when it runs.
#include <cuda.h>

#include <map>
#include <string>

#include "cuda_host/api_calls.h"
#include "cuda_host/mapped_pages.h"
#include "device/cuda/driver_library.h"

using rl::emulated::Allocation;
using rl::emulated::device_shape;
using rl::emulated::Memory;

namespace {

// Addresses that begin and end here, or null.
Allocation* range_of(CUdeviceptr address, size_t bytes) {
  Allocation* const owner = rl::emulated::owner_of(static_cast<uintptr_t>(address));
  const bool whole = owner != nullptr && owner->memory == Memory::kDevice &&
                     owner->begin == address && owner->end - owner->begin == bytes;
  return whole ? owner : nullptr;
}

bool is_whole(size_t bytes) { return bytes > 0 && bytes % device_shape().page_bytes == 0; }

bool on_device(const CUmemLocation& place) {
  return place.type == CU_MEM_LOCATION_TYPE_DEVICE && place.id >= 0 &&
         place.id < device_shape().devices;
}

bool is_sound(const CUmemAllocationProp* wanted) {
  return wanted->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         wanted->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE && on_device(wanted->location);
}

}  // namespace

#define RL_EMULATED_DRIVER_CALL()      \
  ::rl::emulated::Call call(__func__); \
  if (call.status != cudaSuccess) return static_cast<CUresult>(call.status)

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags) {
  RL_EMULATED_DRIVER_CALL();
  if (!is_sound(wanted)) return CUDA_ERROR_INVALID_VALUE;
  *granularity = device_shape().page_bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long flags) {
  RL_EMULATED_DRIVER_CALL();
  if (!is_whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const range = rl::emulated::allocate(Memory::kDevice, bytes, false);
  if (range == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(range);
  rl::emulated::set_usable(rl::emulated::find_allocation(Memory::kDevice, range), false);
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  RL_EMULATED_DRIVER_CALL();
  Allocation* const range = range_of(address, bytes);
  if (range == nullptr || rl::emulated::has_pages(range)) return CUDA_ERROR_INVALID_VALUE;
  rl::emulated::release(range);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* wanted, unsigned long long flags) {
  RL_EMULATED_DRIVER_CALL();
  if (!is_whole(bytes) || !is_sound(wanted) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = rl::emulated::create_pages(bytes, device_shape().memory_bytes);
  return *handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  RL_EMULATED_DRIVER_CALL();
  return rl::emulated::release_pages(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  RL_EMULATED_DRIVER_CALL();
  Allocation* const range = range_of(address, bytes);
  if (range == nullptr || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return rl::emulated::map_pages(handle, range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  RL_EMULATED_DRIVER_CALL();
  Allocation* const range = range_of(address, bytes);
  if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return rl::emulated::unmap_pages(range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  RL_EMULATED_DRIVER_CALL();
  Allocation* const range = range_of(address, bytes);
  if (range == nullptr || !rl::emulated::has_pages(range) || count != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (!on_device(access->location)) return CUDA_ERROR_INVALID_VALUE;
  rl::emulated::set_usable(range, access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace rl::cuda {

// In place of src/device/cuda/driver_open.cc.
void* driver_symbol(const char* name) {
  static const std::map<std::string, void*> functions = {
#define RL_EMULATED_DRIVER(name) {"cu" #name, reinterpret_cast<void*>(&cu##name)},
      RL_DRIVER_FUNCTIONS(RL_EMULATED_DRIVER)
#undef RL_EMULATED_DRIVER
  };
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

}  // namespace rl::cuda
