// Staged copies go through kStagedBytes of the host's heap.
#include "ops/device_bytes.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace rl {
namespace {

std::vector<std::byte> staging_for(uint64_t count) {
  return std::vector<std::byte>(std::min(count, DeviceBytes::kStagedBytes));
}

}  // namespace

void DeviceBytes::visit(FunctionRef<void(std::span<const std::byte> part)> visit) const {
  if (compute_ == nullptr) return visit({data_, count_});
  std::vector<std::byte> staging = staging_for(count_);
  for (uint64_t at = 0; at < count_; at += kStagedBytes) {
    const uint64_t count = std::min(kStagedBytes, count_ - at);
    copy_bytes(*compute_, {data_ + at, staging.data(), count});
    visit(std::span(staging).first(count));
  }
}

DeviceBytes DeviceBytes::part(uint64_t first, uint64_t count) const {
  RL_CHECK(first <= count_ && count <= count_ - first);
  return {compute_, data_ + first, count};
}

void DeviceBytes::read(std::span<std::byte> to) const {
  RL_CHECK(to.size() == count_);
  if (compute_ != nullptr) return copy_bytes(*compute_, {data_, to.data(), count_});
  std::ranges::copy(std::span(data_, count_), to.begin());
}

void DeviceBytes::fill(FunctionRef<void(std::span<std::byte> part)> fill) const {
  if (compute_ == nullptr) return fill({data_, count_});
  std::vector<std::byte> staging = staging_for(count_);
  for (uint64_t at = 0; at < count_; at += kStagedBytes) {
    const uint64_t count = std::min(kStagedBytes, count_ - at);
    fill(std::span(staging).first(count));
    copy_bytes(*compute_, {staging.data(), data_ + at, count});
  }
}

}  // namespace rl
