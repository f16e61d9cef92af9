// Arrays of a test in the memory of a device, and the host's way to their values.
#pragma once
#include <cstring>
#include <vector>

#include "ops/device_floats.h"

namespace rl::testing {

// Of arenas that no ledger counts.
inline ArenaPlace place_on(const Compute& compute) { return {nullptr, compute.device().memory()}; }

inline void fill_bytes(Compute& compute, const Arena& arena, unsigned char value) {
  if (arena.bytes() == 0) return;
  const std::vector<unsigned char> bytes(arena.bytes(), value);
  copy_bytes(compute, {bytes.data(), arena.data(), arena.bytes()});
}

template <typename T>
std::vector<T> values_on(Compute& compute, const T* data, int64_t count) {
  std::vector<T> out(static_cast<size_t>(count));
  if (count > 0) copy_bytes(compute, {data, out.data(), out.size() * sizeof(T)});
  return out;
}

class DeviceArray {
 public:
  DeviceArray(Compute& compute, const std::vector<float>& values)
      : compute_(compute),
        count_(static_cast<int64_t>(values.size())),
        arena_("test array", values.size() * sizeof(float), Touch::kNow, place_on(compute)) {
    floats().write(values);
  }
  float* data() const { return arena_.data() ? arena_.at<float>(0) : nullptr; }
  DeviceFloats floats() const { return {compute_, data(), count_}; }
  std::vector<float> values() const { return values_on(compute_, data(), count_); }

 private:
  Compute& compute_;
  const int64_t count_;
  const Arena arena_;
};

}  // namespace rl::testing
