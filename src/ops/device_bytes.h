// Bytes that ops of a device read and write, and the host's way to them: in place if the device
// computes in the host's memory, otherwise by copies through a staging buffer. Owns nothing.
// Invariant: nothing here touches memory of a device except by copy_bytes().
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/function_ref.h"
#include "ops/compute.h"

namespace rl {

class DeviceBytes {
 public:
  DeviceBytes() = default;
  DeviceBytes(Compute& compute, std::byte* data, uint64_t count)
      : compute_(compute.has_own_memory() ? &compute : nullptr), data_(data), count_(count) {}
  // Memory of the host.
  DeviceBytes(std::span<std::byte> host) : data_(host.data()), count_(host.size()) {}

  uint64_t size() const { return count_; }
  // Calls visit with all bytes in order, in one part or several. It may read them until it returns.
  void visit(FunctionRef<void(std::span<const std::byte> part)> visit) const;
  // Calls fill with room for all bytes in order, in one part or several.
  void fill(FunctionRef<void(std::span<std::byte> part)> fill) const;

  DeviceBytes part(uint64_t first, uint64_t count) const;
  // Copies all bytes; the sizes are equal.
  void read(std::span<std::byte> to) const;

  // Of a part: a multiple of the size of every element type.
  static constexpr uint64_t kStagedBytes = uint64_t{4} << 20;

 private:
  friend class DeviceFloats;
  DeviceBytes(Compute* compute, std::byte* data, uint64_t count)
      : compute_(compute), data_(data), count_(count) {}

  Compute* compute_ = nullptr;  // null: memory of the host
  std::byte* data_ = nullptr;
  uint64_t count_ = 0;
};

}  // namespace rl
