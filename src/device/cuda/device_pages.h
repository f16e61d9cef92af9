// Memory of a device whose pages can be given back while its addresses stay: a range of addresses,
// and pages that are mapped there whole or not at all.
#pragma once
#include <cstdint>

#include "device/cuda/driver_library.h"

namespace rl::cuda {

class DevicePages {
 public:
  // Reserves addresses for the bytes, rounded up to what the device maps at once, and maps pages.
  // The content is undefined. Error(kOutOfMemory) has the bytes and the free memory.
  DevicePages(int device, uint64_t bytes);
  // What still uses the pages must be complete. There is nobody to tell of a failure.
  ~DevicePages();
  DevicePages(const DevicePages&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  // Gives the pages back to the device, if they are mapped. Nothing may use them any more.
  void drop() noexcept;
  // Maps pages again if they are not, with undefined content. Errors as of the constructor.
  void map();

 private:
  CUmemAllocationProp properties() const;

  const int device_;
  uint64_t bytes_ = 0;  // of the range
  CUdeviceptr address_ = 0;
  bool mapped_ = false;
};

}  // namespace rl::cuda
