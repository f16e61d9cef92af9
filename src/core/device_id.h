// Which device memory belongs to: its kind and its number among those of the kind, as DLPack and
// rl.h count them.
#pragma once
#include <cstdint>

namespace rl {

struct DeviceId {
  static constexpr int32_t kCpu = 1, kCuda = 2;
  int32_t kind = kCpu;
  int32_t index = 0;
  bool operator==(const DeviceId&) const = default;
};

}  // namespace rl
