// Memory of a host. Large arenas ask for the alignment of huge pages, so that an allocator that
// maps memory can use them.
#include "abi/host/host_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "abi/callbacks.h"
#include "abi/host/host_service.h"
#include "core/error.h"

namespace rl::abi {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

class HostMemory final : public MemorySource {
 public:
  HostMemory(const rl_allocator* allocator, UserData&& user)
      : host_(allocator, std::move(user), "allocator") {
    require_function(host_.table().allocate, "allocator.allocate");
    require_function(host_.table().release, "allocator.release");
  }

  void* reserve(uint64_t bytes) override {
    const uint64_t alignment = bytes >= kHugePage ? kHugePage : kPage;
    void* memory = nullptr;
    int32_t code = 0;
    {
      const CallbackScope scope;
      code = host_.table().allocate(host_.data(), bytes, alignment, &memory);
    }
    if (code != 0 || memory == nullptr) {
      errno = code != 0 ? code : ENOMEM;
      return nullptr;
    }
    if (reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
      release(memory, bytes);
      throw Error(Code::kInvalidArgument,
                  str("allocator.allocate gave ", bytes,
                      " bytes at an address that is not a multiple of ", alignment))
          .with_key("allocator.allocate");
    }
    return memory;
  }
  bool reserves_zeros() const override { return false; }

  void release(void* data, uint64_t bytes) noexcept override {
    const CallbackScope scope;
    host_.table().release(host_.data(), data, bytes);
  }

  void decommit(void* data, uint64_t bytes) noexcept override {
    if (host_.table().decommit == nullptr) {
      std::memset(data, 0, bytes);
      return;
    }
    const CallbackScope scope;
    host_.table().decommit(host_.data(), data, bytes);
  }

 private:
  HostService<rl_allocator> host_;
};

}  // namespace

std::shared_ptr<MemorySource> host_memory(const rl_allocator* allocator, UserData&& user) {
  if (allocator == nullptr) return nullptr;
  return std::make_shared<HostMemory>(allocator, std::move(user));
}

}  // namespace rl::abi
