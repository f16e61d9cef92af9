// A flat array of floats that ops of a device read and write, and the host's way to its values: in
// place if the device computes in the host's memory, otherwise by copies through a staging buffer.
// Owns no bytes. Invariant: nothing here touches memory of a device except by copy_bytes().
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "ops/compute.h"
#include "ops/device_bytes.h"

namespace rl {

class DeviceFloats {
 public:
  DeviceFloats() = default;
  DeviceFloats(Compute& compute, float* data, int64_t count)
      : compute_(compute.has_own_memory() ? &compute : nullptr), data_(data), count_(count) {}
  // Memory of the host.
  DeviceFloats(std::span<float> host)
      : data_(host.data()), count_(static_cast<int64_t>(host.size())) {}
  DeviceFloats(std::vector<float>& host) : DeviceFloats(std::span(host)) {}

  float* data() const { return data_; }
  int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool is_host_memory() const { return compute_ == nullptr; }
  DeviceFloats part(int64_t first, int64_t count) const;
  DeviceBytes bytes() const {
    return {compute_, reinterpret_cast<std::byte*>(data_),
            static_cast<uint64_t>(count_) * sizeof(float)};
  }
  // The floats themselves; an internal error if they are not in the host's memory.
  std::span<float> in_host() const;

  // Calls visit with all values in order, in one part or several. It may read them until it
  // returns.
  void visit(FunctionRef<void(std::span<const float> part)> visit) const;
  // Calls fill with room for all values in order, in one part or several.
  void fill(FunctionRef<void(std::span<float> part)> fill) const;
  // Copies all values; the sizes are equal.
  void read(std::span<float> to) const;
  void write(std::span<const float> from) const;
  void copy_to(const DeviceFloats& to) const;

 private:
  Compute* compute_ = nullptr;  // null: memory of the host
  float* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace rl
