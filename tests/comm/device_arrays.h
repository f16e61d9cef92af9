// Arrays in the memory of a device of tests, whose bytes are the complement of what they mean, so
// that a call which reads or writes them as the host's is wrong.
#pragma once
#include "comm/collective_checks.h"
#include "comm/staged_values.h"

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

// The way between such arrays and the memory of the host.
class ArrayCopies final : public DeviceCopies {
 public:
  void to_host(const std::byte* device, std::span<std::byte> host) override {
    for (size_t i = 0; i < host.size(); ++i) host[i] = ~device[i];
  }
  void to_device(std::span<const std::byte> host, std::byte* device) override {
    for (size_t i = 0; i < host.size(); ++i) device[i] = ~host[i];
  }
  void within(std::span<const std::byte> from, std::byte* to) override {
    std::ranges::copy(from, to);
  }
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

// The same of calls with two arrays.
using CallOfTwo = std::function<void(const ConstValues& from, const Values& to)>;
template <typename T>
void expect_same_of_two(comm::Group& group, uint64_t count, const CallOfTwo& call) {
  const std::vector<T> from = values_at<T>(group.rank(), count);
  std::vector<T> to(from.size());
  DeviceArray<T> device_from(from), device_to(to);
  const Traffic before = group.traffic();
  call(of_const(from), of(to));
  const Traffic between = group.traffic();
  call(device_from.const_values(), device_to.values());
  EXPECT_TRUE(same_bits(device_to.host(), to)) << element_name(kElementOf<T>) << " x " << count;
  EXPECT_EQ((group.traffic() - between).total(), (between - before).total());
}

template <typename T>
void expect_calls_of_two(comm::Group& group, uint64_t count) {
  const auto size = static_cast<uint64_t>(group.size());
  const auto same = [&](uint64_t values, const CallOfTwo& call) {
    expect_same_of_two<T>(group, values, call);
  };
  same(count * size, [&](const auto& from, const auto& to) { group.all_to_all(from, to); });
  same(count * size,
       [&](const auto& from, const auto& to) { group.start_all_to_all(from, to).wait(); });
  if (size == 1) return;
  same(count, [&](const auto& from, const auto& to) { group.shift(from, to); });
  same(count, [&](const auto& from, const auto& to) { group.start_shift(from, to).wait(); });
}

// Every collective on values of the host and on those of a device; kReduces: reductions too.
template <typename T, bool kReduces>
void expect_same_collectives(comm::Group& group, uint64_t count) {
  const auto same = [&](const std::function<void(const Values&)>& call) {
    expect_same<T>(group, count, call);
  };
  if constexpr (kReduces) {
    same([&](const Values& v) { group.all_reduce(v); });
    same([&](const Values& v) { group.all_reduce(v, Reduction::kMax); });
    same([&](const Values& v) { group.reduce_scatter(v); });
    same([&](const Values& v) { group.start_all_reduce(v).wait(); });
  }
  same([&](const Values& v) { group.all_gather(v); });
  for (int root = 0; root < group.size(); ++root)
    same([&](const Values& v) { group.broadcast(v, root); });
  expect_calls_of_two<T>(group, count);
}

// Of four ranks with pieces of different sizes.
inline void expect_same_pieces(comm::Group& group) {
  const uint64_t count = kUneven.count();
  const auto same = [&](const std::function<void(const Values&)>& call) {
    expect_same<float>(group, count, call);
    expect_same<bf16>(group, count, call);
  };
  same([&](const Values& v) { group.reduce_scatter(v, kUneven); });
  same([&](const Values& v) { group.all_gather(v, kUneven); });
  same([&](const Values& v) {
    StartedCall sum = group.start_reduce_scatter(v, kUneven);
    StartedCall all = group.start_all_gather(v, kUneven);
    sum.wait();
    all.wait();
  });
}

// Rank r has (r + 1) * (r' + 1) * 7 - 7 values for rank r'; of two ranks one has none for itself.
inline void expect_uneven_all_to_all(comm::Group& group) {
  Pieces pieces{{0}};
  for (int r = 0; r < group.size(); ++r) {
    const auto values = static_cast<uint64_t>((group.rank() + 1) * (r + 1) * 7 - 7);
    pieces.bounds.push_back(pieces.count() + values);
  }
  expect_same_of_two<float>(group, pieces.count(), [&](const auto& from, const auto& to) {
    group.all_to_all({from, pieces}, DividedValues{to, pieces});
  });
}

// Rank r gives r + 1 times as many values as rank 0.
inline void expect_uneven_shift(comm::Group& group, uint64_t of_first) {
  const auto count = [&](int rank) {
    return static_cast<uint64_t>(rank % group.size() + 1) * of_first;
  };
  const int before = group.rank() + group.size() - 1;
  const std::vector<float> from = values_at<float>(group.rank(), count(group.rank()));
  DeviceArray<float> out(from), in(std::vector<float>(count(before)));
  group.shift(out.const_values(), in.values());
  EXPECT_TRUE(same_bits(in.host(), values_at<float>(before % group.size(), count(before))));
}

}  // namespace rl
