// Arenas of the device are pages mapped to addresses, so that an arena can give its pages back and
// keep its addresses. Scratch is cudaMalloc's, pinned memory cudaHostAlloc's: both are held for as
// long as a Compute lives. The refusal of CUDA is thrown as it is, with the free memory.
#include "device/cuda/memory_spaces.h"

#include <map>
#include <mutex>

#include "device/cuda/cuda_calls.h"
#include "device/cuda/device_pages.h"
#include "device/cuda/streams.h"

namespace rl::cuda {
namespace {

// Work of streams may still use memory that is about to go. A failure shows in the next call.
void wait_for_device() noexcept { static_cast<void>(cudaDeviceSynchronize()); }

// Makes the device current where nobody can be told of a failure.
class QuietScope {
 public:
  explicit QuietScope(int device) {
    static_cast<void>(cudaGetDevice(&previous_));
    static_cast<void>(cudaSetDevice(device));
  }
  ~QuietScope() { static_cast<void>(cudaSetDevice(previous_)); }
  QuietScope(const QuietScope&) = delete;

 private:
  int previous_ = 0;
};

// Complete when it returns, for streams that do not wait for the default one.
void clear(void* data, uint64_t bytes) {
  RL_CUDA(cudaMemset(data, 0, bytes), bytes, " bytes");
  RL_CUDA(cudaDeviceSynchronize(), "after setting ", bytes, " bytes to zero");
}

class DeviceMemory final : public MemorySource {
 public:
  explicit DeviceMemory(int device) : device_(device) {}

  MemorySpace space() const override { return MemorySpace::kDevice; }

  void* reserve(uint64_t bytes) override {
    const DeviceScope scope(device_);
    auto pages = std::make_unique<DevicePages>(device_, bytes);
    void* const data = pages->data();
    clear(data, bytes);
    const std::lock_guard lock(mutex_);
    ranges_[data] = std::move(pages);
    return data;
  }

  void release(void* data, uint64_t) noexcept override {
    const QuietScope scope(device_);
    wait_for_device();
    const std::lock_guard lock(mutex_);
    ranges_.erase(data);
  }

  void decommit(void* data, uint64_t) noexcept override {
    const QuietScope scope(device_);
    wait_for_device();
    const std::lock_guard lock(mutex_);
    ranges_.find(data)->second->drop();
  }

  void commit(void* data, uint64_t bytes) override {
    const DeviceScope scope(device_);
    {
      const std::lock_guard lock(mutex_);
      ranges_.find(data)->second->map();
    }
    clear(data, bytes);
  }

 private:
  const int device_;
  std::mutex mutex_;
  std::map<void*, std::unique_ptr<DevicePages>> ranges_;
};

class ScratchMemory final : public MemorySource {
 public:
  explicit ScratchMemory(int device) : device_(device) {}

  MemorySpace space() const override { return MemorySpace::kDevice; }
  void* reserve(uint64_t bytes) override {
    const DeviceScope scope(device_);
    void* data = nullptr;
    RL_CUDA(cudaMalloc(&data, bytes), bytes, " bytes");
    return data;
  }
  void release(void* data, uint64_t) noexcept override {
    const QuietScope scope(device_);
    wait_for_device();
    static_cast<void>(cudaFree(data));
  }
  // Its content is undefined anyway.
  void decommit(void*, uint64_t) noexcept override {}

 private:
  const int device_;
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
  if (space == Space::kScratch) return std::make_shared<ScratchMemory>(device);
  return std::make_shared<DeviceMemory>(device);
}

}  // namespace rl::cuda
