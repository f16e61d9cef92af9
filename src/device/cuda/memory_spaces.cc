// Reservations are cudaMalloc's and cudaHostAlloc's, which are aligned to at least 256 bytes and to
// pages. The refusal of CUDA is thrown as it is, with the free memory.
#include "device/cuda/memory_spaces.h"

#include "device/cuda/cuda_calls.h"
#include "device/cuda/streams.h"

namespace rl::cuda {
namespace {

class DeviceMemory final : public MemorySource {
 public:
  DeviceMemory(int device, bool zeros) : device_(device), zeros_(zeros) {}

  MemorySpace space() const override { return MemorySpace::kDevice; }

  void* reserve(uint64_t bytes) override {
    const DeviceScope scope(device_);
    void* data = nullptr;
    RL_CUDA(cudaMalloc(&data, bytes), bytes, " bytes");
    if (!zeros_) return data;
    try {
      clear(data, bytes);
    } catch (...) {
      static_cast<void>(cudaFree(data));
      throw;
    }
    return data;
  }

  // Work that uses the memory may still be in a stream. There is nobody to tell of a failure.
  void release(void* data, uint64_t) noexcept override {
    int previous = 0;
    static_cast<void>(cudaGetDevice(&previous));
    static_cast<void>(cudaSetDevice(device_));
    static_cast<void>(cudaDeviceSynchronize());
    static_cast<void>(cudaFree(data));
    static_cast<void>(cudaSetDevice(previous));
  }

  // Keeps the pages: memory of a device cannot be given back in part.
  void decommit(void* data, uint64_t bytes) noexcept override {
    try {
      const DeviceScope scope(device_);
      clear(data, bytes);
    } catch (const Error&) {
      // The device is lost, and the next call that reaches it says so.
    }
  }

 private:
  // Complete when it returns, for streams that do not wait for the default one.
  static void clear(void* data, uint64_t bytes) {
    RL_CUDA(cudaDeviceSynchronize());
    RL_CUDA(cudaMemset(data, 0, bytes), bytes, " bytes");
    RL_CUDA(cudaDeviceSynchronize(), "after setting ", bytes, " bytes to zero");
  }

  const int device_;
  const bool zeros_;
};

class PinnedMemory final : public MemorySource {
 public:
  explicit PinnedMemory(int device) : device_(device) {}

  void* reserve(uint64_t bytes) override {
    const DeviceScope scope(device_);
    void* data = nullptr;
    RL_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), bytes, " bytes of pinned memory");
    return data;
  }
  bool reserves_zeros() const override { return false; }
  void release(void* data, uint64_t) noexcept override { static_cast<void>(cudaFreeHost(data)); }
  void decommit(void* data, uint64_t bytes) noexcept override {
    std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{0});
  }

 private:
  const int device_;
};

}  // namespace

std::shared_ptr<MemorySource> memory_of(Space space, int device) {
  if (space == Space::kPinned) return std::make_shared<PinnedMemory>(device);
  return std::make_shared<DeviceMemory>(device, space == Space::kDevice);
}

}  // namespace rl::cuda
