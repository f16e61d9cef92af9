// Staged copies go through 4 MiB of the host's heap.
#include "ops/device_floats.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kStagedFloats = int64_t{1} << 20;

void copy(Compute* compute, const float* from, float* to, int64_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(float);
  if (bytes == 0) return;
  if (compute != nullptr) return copy_bytes(*compute, {from, to, bytes});
  std::memcpy(to, from, bytes);
}

std::vector<float> staging_for(int64_t count) {
  return std::vector<float>(static_cast<size_t>(std::min(count, kStagedFloats)));
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
  if (compute_ == nullptr) return visit(in_host());
  std::vector<float> staging = staging_for(count_);
  for (int64_t at = 0; at < count_; at += kStagedFloats) {
    const int64_t count = std::min(kStagedFloats, count_ - at);
    copy(compute_, data_ + at, staging.data(), count);
    visit(std::span(staging).first(static_cast<size_t>(count)));
  }
}

void DeviceFloats::fill(FunctionRef<void(std::span<float> part)> fill) const {
  if (compute_ == nullptr) return fill(in_host());
  std::vector<float> staging = staging_for(count_);
  for (int64_t at = 0; at < count_; at += kStagedFloats) {
    const int64_t count = std::min(kStagedFloats, count_ - at);
    fill(std::span(staging).first(static_cast<size_t>(count)));
    copy(compute_, staging.data(), data_ + at, count);
  }
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
