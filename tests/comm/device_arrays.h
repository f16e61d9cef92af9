// Arrays in the memory of a device of tests, whose bytes are the complement of what they mean, so
// that a call which reads or writes them as the host's is wrong.
#pragma once
#include "comm/collective_checks.h"

namespace rl {

constexpr uint64_t kCounts[] = {0, 1, 8, 15, 16, 17, 64, 333};
// Some of them empty, and none that begins with a window of a small power of two.
inline const Pieces kUneven{{0, 5, 5, 100, 333}};

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::vector<T> host) : values_(std::move(host)) { turn(); }
  Values values() {
    Values out = values_of(std::span<T>(values_));
    out.space = MemorySpace::kDevice;
    return out;
  }
  ConstValues const_values() {
    const Values v = values();
    return {v.data, v.count, v.element, v.space};
  }
  std::vector<T> host() {
    turn();
    std::vector<T> out = values_;
    turn();
    return out;
  }

 private:
  void turn() {
    for (std::byte& b : std::as_writable_bytes(std::span(values_))) b = ~b;
  }
  std::vector<T> values_;
};

// The same call on values of the host and on those of a device. Of more than two ranks each may
// have another share of a window than of all values, so what it sends differs.
template <typename T>
void expect_same(comm::Group& group, uint64_t count,
                 const std::function<void(const Values&)>& call) {
  std::vector<T> host = values_at<T>(group.rank(), count);
  DeviceArray<T> device(host);
  const Traffic before = group.traffic();
  call(of(host));
  const Traffic between = group.traffic();
  call(device.values());
  EXPECT_TRUE(same_bits(device.host(), host)) << element_name(kElementOf<T>) << " x " << count;
  if (group.size() == 2) {
    EXPECT_EQ((group.traffic() - between).total(), (between - before).total());
  }
}

}  // namespace rl
