// One allocation of pages for the whole range. The handle is released as soon as the pages are
// mapped: they live until they are unmapped.
#include "device/cuda/device_pages.h"

#include "core/checked.h"

namespace rl::cuda {

CUmemAllocationProp DevicePages::properties() const {
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  return out;
}

DevicePages::DevicePages(int device, uint64_t bytes) : device_(device) {
  const CUmemAllocationProp wanted = properties();
  size_t granularity = 0;
  RL_DRIVER(driver().MemGetAllocationGranularity(&granularity, &wanted,
                                                 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  bytes_ = CheckedU64(bytes).align_up(granularity).get();
  RL_DRIVER(driver().MemAddressReserve(&address_, bytes_, 0, 0, 0), bytes_, " bytes of addresses");
  try {
    map();
  } catch (...) {
    static_cast<void>(driver().MemAddressFree(address_, bytes_));
    throw;
  }
}

DevicePages::~DevicePages() {
  drop();
  static_cast<void>(driver().MemAddressFree(address_, bytes_));
}

void DevicePages::drop() noexcept {
  if (mapped_ && driver().MemUnmap(address_, bytes_) == CUDA_SUCCESS) mapped_ = false;
}

void DevicePages::map() {
  if (mapped_) return;
  const CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle pages = 0;
  RL_DRIVER(driver().MemCreate(&pages, bytes_, &wanted, 0), bytes_, " bytes");
  const CUresult status = driver().MemMap(address_, bytes_, 0, pages, 0);
  static_cast<void>(driver().MemRelease(pages));
  RL_DRIVER(status, "mapping ", bytes_, " bytes");
  mapped_ = true;
  const CUmemAccessDesc access{wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  try {
    RL_DRIVER(driver().MemSetAccess(address_, bytes_, &access, 1), bytes_, " bytes");
  } catch (...) {
    drop();
    throw;
  }
}

}  // namespace rl::cuda
