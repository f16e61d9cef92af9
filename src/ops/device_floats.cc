// Values are visited and filled as bytes (ops/device_bytes.h).
#include "ops/device_floats.h"

#include <cstring>

#include "core/error.h"

namespace rl {
namespace {

void copy(Compute* compute, const float* from, float* to, int64_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(float);
  if (bytes == 0) return;
  if (compute != nullptr) return copy_bytes(*compute, {from, to, bytes});
  std::memcpy(to, from, bytes);
}

}  // namespace

DeviceFloats DeviceFloats::part(int64_t first, int64_t count) const {
  RL_CHECK(first >= 0 && count >= 0 && first + count <= count_);
  DeviceFloats out = *this;
  out.data_ += first;
  out.count_ = count;
  return out;
}

std::span<float> DeviceFloats::in_host() const {
  RL_CHECK(compute_ == nullptr);
  return {data_, static_cast<size_t>(count_)};
}

void DeviceFloats::visit(FunctionRef<void(std::span<const float> part)> visit) const {
  bytes().visit([&](std::span<const std::byte> part) {
    visit({reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float)});
  });
}

void DeviceFloats::fill(FunctionRef<void(std::span<float> part)> fill) const {
  bytes().fill([&](std::span<std::byte> part) {
    fill({reinterpret_cast<float*>(part.data()), part.size() / sizeof(float)});
  });
}

void DeviceFloats::read(std::span<float> to) const {
  RL_CHECK(static_cast<int64_t>(to.size()) == count_);
  copy(compute_, data_, to.data(), count_);
}

void DeviceFloats::write(std::span<const float> from) const {
  RL_CHECK(static_cast<int64_t>(from.size()) == count_);
  copy(compute_, from.data(), data_, count_);
}

void DeviceFloats::copy_to(const DeviceFloats& to) const {
  RL_CHECK(to.count_ == count_);
  copy(compute_ != nullptr ? compute_ : to.compute_, data_, to.data_, count_);
}

}  // namespace rl
