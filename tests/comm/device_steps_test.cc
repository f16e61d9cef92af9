// Collectives on values of a device by messages from device to device: what they do with values of
// the host. Ranks that are late, differ or fail are named, and no device is waited for in vain.
#include "comm/device_steps.h"

#include <cstring>
#include <deque>

#include "comm/device_arrays.h"
#include "comm/local_ranks.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::Group;

constexpr int64_t kShortNs = 300 * 1000000;

// What goes wrong with the messages of a rank.
struct Faults {
  bool joining = false, exchange = false;  // an Error
  bool never_complete = false;
  int64_t lost_after_ns = -1;  // the device, once a call is to complete; negative: it is not
};

// Devices that are as late as they may be: everything runs in complete(). Messages go over
// transports of their own.
class FakeMessages final : public DeviceMessages {
 public:
  FakeMessages(std::shared_ptr<Transport> way, const Faults& faults)
      : way_(std::move(way)), faults_(faults), scratch_(kSlotBytes * 3) {}

  uint64_t id_bytes() const override { return kId.size(); }
  std::vector<std::byte> make_id() override {
    EXPECT_EQ(way_->rank(), 0);
    const auto bytes = std::as_bytes(std::span(kId));
    return {bytes.begin(), bytes.end()};
  }
  void join(const Place& place, StillThere still_there) override {
    EXPECT_EQ(place.rank, way_->rank());
    EXPECT_EQ(place.size, way_->size());
    EXPECT_EQ(std::memcmp(place.id.data(), kId.data(), kId.size()), 0);
    still_there();
    if (faults_.joining) throw Error(Code::kNotInBuild, "there is no such library");
  }

  void begin() override { EXPECT_TRUE(work_.empty()); }
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                StillThere still_there) override {
    still_there();
    if (faults_.exchange) throw Error(Code::kIo, "the cable is out");
    work_.push_back([this, sent = std::vector<Outgoing>(out.begin(), out.end()),
                     received = std::vector<Incoming>(in.begin(), in.end())] {
      way_->exchange({0, "bytes", sent, received, -1});
    });
  }
  void copy(std::span<const std::byte> from, std::byte* to) override {
    work_.push_back([=] { std::ranges::copy(from, to); });
  }
  std::span<std::byte> scratch() const override { return scratch_; }
  void reduce(Reduction reduction, uint64_t slot_bytes, const Values& out) override {
    EXPECT_EQ(out.space, MemorySpace::kDevice);
    work_.push_back([=, this] { reduce_now(reduction, slot_bytes, out); });
  }
  void reduce_scatter_own_order(const DividedValues& all, StillThere still_there) override {
    add_up(all.values, all.pieces[way_->rank()], still_there);
  }
  void all_reduce_own_order(const Values& values, StillThere still_there) override {
    add_up(values, {0, values.count}, still_there);
  }
  void complete(StillThere still_there) override {
    while (faults_.never_complete) still_there();
    if (faults_.lost_after_ns >= 0) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(faults_.lost_after_ns));
      throw Error(Code::kDeviceLost, "the device is gone");
    }
    for (; !work_.empty(); work_.pop_front()) work_.front()();
  }

  static constexpr uint64_t kSlotBytes = 256;

 private:
  static constexpr std::string_view kId = "those who meet";

  std::vector<std::byte> host_bytes(const std::byte* device, uint64_t bytes) const {
    std::vector<std::byte> out(device, device + bytes);
    for (std::byte& b : out) b = ~b;
    return out;
  }
  void reduce_now(Reduction reduction, uint64_t slot_bytes, Values out) {
    std::vector<std::vector<std::byte>> parts;
    const std::byte* slot = scratch_.data();
    for (int r = 0; r < way_->size(); ++r) {
      parts.push_back(host_bytes(r == way_->rank() ? out.data : slot, out.bytes()));
      if (r != way_->rank()) slot += slot_bytes;
    }
    std::vector<const std::byte*> addresses;
    for (const auto& part : parts) addresses.push_back(part.data());
    reduce_in_rank_order(reduction, addresses, out);
    for (std::byte& b : out.span()) b = ~b;
  }

  void add_up(const Values& all, Piece wanted, StillThere still_there) {
    still_there();
    if (faults_.exchange) throw Error(Code::kIo, "the cable is out");
    EXPECT_EQ(all.space, MemorySpace::kDevice);
    work_.push_back([=, this] { add_up_now(all, wanted); });
  }
  // From the last rank down. Every rank has all values of all, of which it adds up what is wanted.
  void add_up_now(const Values& all, Piece wanted) {
    const int size = way_->size();
    const std::vector<std::byte> own = host_bytes(all.data, all.bytes());
    std::vector<std::vector<std::byte>> parts(static_cast<size_t>(size), own);
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int r = 0; r < size; ++r) {
      if (r == way_->rank()) continue;
      out.push_back({r, own});
      in.push_back({r, parts[static_cast<size_t>(r)]});
    }
    way_->exchange({0, "values", out, in, -1});
    std::vector<std::byte>& sum = parts.back();
    for (size_t r = parts.size() - 1; r-- > 0;) {
      const std::byte* const two[] = {sum.data(), parts[r].data()};
      reduce_in_rank_order(Reduction::kSum, two, {sum.data(), all.count, all.element});
    }
    const uint64_t bytes = element_bytes(all.element);
    for (uint64_t i = wanted.begin * bytes; i < wanted.end * bytes; ++i) all.data[i] = ~sum[i];
  }

  const std::shared_ptr<Transport> way_;
  const Faults faults_;
  mutable std::vector<std::byte> scratch_;
  std::deque<std::function<void()>> work_;
};

struct Ranks {
  Backend backend = local_backend;
  int64_t timeout_ns = kLongNs;
  std::function<Faults(int rank)> faults = [](int) { return Faults(); };
  bool own_order = false;

  std::vector<std::exception_ptr> attempt(int size, const std::function<void(Group&)>& body) const {
    const TransportOf ways = copying_backend(size);
    return try_ranks(backend, size, [&](std::shared_ptr<Transport> transport) {
      GroupOptions options{.timeout_ns = timeout_ns};
      const int rank = transport->rank();
      options.device = std::make_shared<FakeMessages>(ways(rank), faults(rank));
      options.own_order_on_devices = own_order;
      Group group(std::move(transport), options);
      body(group);
    });
  }
  void run(int size, const std::function<void(Group&)>& body) const {
    for (const std::exception_ptr& thrown : attempt(size, body))
      if (thrown != nullptr) std::rethrow_exception(thrown);
  }
};

Code code_of(const std::exception_ptr& thrown) {
  try {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.code;
  }
  return Code::kOk;
}

std::string message_of(const std::exception_ptr& thrown) {
  try {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.message;
  }
  return "";
}

void all_reduce_on_device(Group& group) {
  DeviceArray<float> values(values_at<float>(group.rank(), 4));
  group.all_reduce(values.values());
}

template <typename T>
void expect_collectives(Group& group, uint64_t count) {
  constexpr bool kReduces = !std::is_same_v<T, int64_t> && !std::is_same_v<T, std::byte>;
  expect_same_collectives<T, kReduces>(group, count);
}

template <typename T>
class DeviceCollectives : public ::testing::Test {};
using Types = ::testing::Types<float, bf16, int32_t, int64_t, std::byte>;
TYPED_TEST_SUITE(DeviceCollectives, Types);

TYPED_TEST(DeviceCollectives, HaveTheBitsOfTheHosts) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    for (int size = 1; size <= 4; ++size) {
      Ranks{.backend = backend}.run(size, [](Group& group) {
        for (const uint64_t count : kCounts) expect_collectives<TypeParam>(group, count);
      });
    }
  }
}

TEST(DevicePieces, MayBeOfAnySize) {
  Ranks().run(4, [](Group& group) {
    expect_same_pieces(group);
    expect_uneven_all_to_all(group);
    for (const uint64_t many : kCounts) expect_uneven_shift(group, many);
  });
}

template <typename T>
std::vector<T> on_device(const std::vector<T>& values,
                         const std::function<void(const Values&)>& call) {
  DeviceArray<T> device(values);
  call(device.values());
  return device.host();
}

TEST(DeviceSums, AreInAnOrderOfTheirOwnIfTheGroupWantsIt) {
  for (int size = 1; size <= 4; ++size) {
    Ranks{.own_order = true}.run(size, [&](Group& group) {
      for (const uint64_t count : kCounts) {
        expect_own_order<float>(group, even_pieces(count, size), on_device<float>);
        expect_own_order<bf16>(group, even_pieces(count, size), on_device<bf16>);
      }
      if (size == 4) expect_own_order<float>(group, kUneven, on_device<float>);
    });
  }
  EXPECT_NE(own_order_sum_at<float>(4, 0), sum_at<float>(4, 0)) << "a test of nothing";
}

TEST(DeviceSums, OfOtherKindsKeepTheOrderOfRanks) {
  Ranks{.own_order = true}.run(3, [](Group& group) {
    for (const uint64_t count : kCounts) {
      std::vector<float> host = values_at<float>(group.rank(), count);
      group.all_reduce(of(host));
      for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(host[i], sum_at<float>(3, i)) << i;
      expect_same<int32_t>(group, count, [&](const Values& v) { group.all_reduce(v); });
      expect_same<float>(group, count,
                         [&](const Values& v) { group.all_reduce(v, Reduction::kMax); });
      expect_same<float>(group, count, [&](const Values& v) { group.all_gather(v); });
    }
  });
}

TEST(DeviceSums, CountTheBytesOfTheOrderOfRanks) {
  const auto bytes = [](bool own_order) {
    std::vector<uint64_t> counted(3);
    Ranks{.own_order = own_order}.run(3, [&](Group& group) {
      DeviceArray<float> values(values_at<float>(group.rank(), 333));
      group.all_reduce(values.values());
      group.reduce_scatter(values.values(), Pieces{{0, 5, 5, 333}});
      counted[static_cast<size_t>(group.rank())] = group.traffic().total().sent;
    });
    return counted;
  };
  EXPECT_EQ(bytes(true), bytes(false));
}

TEST(DeviceMessages, GoFromRankToRankWithoutTheOthers) {
  Ranks().run(3, [](Group& group) {
    if (group.rank() == 1) return;
    for (const uint64_t count : kCounts) {
      DeviceArray<float> values(values_at<float>(group.rank(), count));
      if (group.rank() == 0) {
        group.send(values.const_values(), 2);
      } else {
        group.receive(values.values(), 0);
      }
      EXPECT_TRUE(same_bits(values.host(), values_at<float>(0, count))) << count;
    }
  });
}

TEST(DeviceCalls, OfOtherKindsAreRefused) {
  Ranks().run(2, [](Group& group) {
    DeviceArray<int64_t> whole(values_at<int64_t>(0, 4));
    DeviceArray<float> from(values_at<float>(0, 4));
    const Error error = expect_error(Code::kUnsupported, [&] { group.all_reduce(whole.values()); });
    EXPECT_TRUE(contains(error.message, "not of int64")) << error.message;
    expect_error(Code::kUnsupported,
                 [&] { group.scatter_chunks(from.values(), even_pieces(4, 2), [](auto&&...) {}); });
    expect_same<float>(group, 4, [&](const Values& v) { group.all_reduce(v); });
  });
}

// Rank 1 has more values, also some that differ in the last chunk of a sum alone, or values of the
// host, or, where devices add up, other pieces.
TEST(DeviceCalls, ThatDifferNameBothEnds) {
  const auto larger = Ranks().attempt(2, [](Group& group) {
    DeviceArray<float> values(values_at<float>(0, group.rank() == 1 ? 8 : 4));
    group.broadcast(values.values(), 0);
  });
  const auto longer = Ranks().attempt(2, [](Group& group) {
    DeviceArray<float> values(values_at<float>(0, group.rank() == 1 ? 500 : 400));
    group.all_reduce(values.values());
  });
  const auto of_host = Ranks().attempt(2, [](Group& group) {
    std::vector<float> host(4);
    DeviceArray<float> device(host);
    group.all_reduce(group.rank() == 1 ? of(host) : device.values());
  });
  const auto divided = Ranks{.own_order = true}.attempt(2, [](Group& group) {
    DeviceArray<float> values(values_at<float>(group.rank(), 8));
    group.reduce_scatter(values.values(), Pieces{{0, group.rank() == 1 ? 2u : 4u, 8}});
  });
  for (const std::exception_ptr& each : longer) EXPECT_TRUE(contains(message_of(each), "1000"));
  for (const auto& thrown : {larger, longer, of_host, divided}) {
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_NE(thrown[static_cast<size_t>(rank)], nullptr);
      try {
        std::rethrow_exception(thrown[static_cast<size_t>(rank)]);
      } catch (const RankError& error) {
        EXPECT_EQ(error.rank, 1 - rank);
        EXPECT_TRUE(contains(error.message, "bytes")) << error.message;
      } catch (const Error& error) {
        EXPECT_EQ(error.code, Code::kIncompatible) << error.message;
        EXPECT_TRUE(contains(error.message, str("rank ", 1 - rank))) << error.message;
      }
    }
  }
}

TEST(DeviceCalls, NameARankThatDoesNotCome) {
  for (const bool own_order : {false, true}) {
    const Ranks ranks{.timeout_ns = kShortNs, .own_order = own_order};
    const auto thrown = ranks.attempt(3, [](Group& group) {
      if (group.rank() == 2) {
        return std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kShortNs));
      }
      all_reduce_on_device(group);
    });
    expect_named(thrown, 2);
  }
}

// No device ends: the first rank that says so is named by both.
TEST(DeviceCalls, EndInTimeWhenDevicesDoNot) {
  const Ranks ranks{.timeout_ns = kShortNs,
                    .faults = [](int) { return Faults{.never_complete = true}; }};
  const auto thrown = ranks.attempt(2, all_reduce_on_device);
  std::vector<int> named;
  for (const std::exception_ptr& each : thrown) {
    ASSERT_NE(each, nullptr);
    try {
      std::rethrow_exception(each);
    } catch (const RankError& error) {
      EXPECT_TRUE(contains(error.message, "did not end all_reduce on axis all")) << error.message;
      named.push_back(error.rank);
    }
  }
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0], named[1]);
}

// The ranks learn that rank 1 is gone after the others have waited for their devices in vain, or
// their library has met an error of the network.
TEST(DeviceCalls, NameTheRankThatIsGoneAndNotTheOneThatSaysSoFirst) {
  for (const bool exchange_fails : {false, true}) {
    const Ranks ranks{.timeout_ns = kShortNs, .faults = [&](int rank) {
                        if (rank == 1) return Faults{.lost_after_ns = kShortNs * 3 / 2};
                        return Faults{.exchange = exchange_fails, .never_complete = true};
                      }};
    const auto thrown = ranks.attempt(3, all_reduce_on_device);
    expect_named({thrown[0], nullptr, thrown[2]}, 1);
    EXPECT_EQ(code_of(thrown[1]), Code::kDeviceLost);
  }
}

// The devices of the others are still busy when rank 1 fails.
TEST(DeviceCalls, FailOnAllRanksWhenTheDeviceOfOneDoes) {
  for (const bool own_order : {false, true}) {
    const Ranks ranks{
        .faults =
            [](int rank) { return Faults{.exchange = rank == 1, .never_complete = rank != 1}; },
        .own_order = own_order};
    const auto thrown = ranks.attempt(3, all_reduce_on_device);
    expect_named({thrown[0], nullptr, thrown[2]}, 1);
    EXPECT_EQ(code_of(thrown[1]), Code::kIo);
  }
}

// Rank 2 * d + t of the run is rank d of the group with index t on the other axis.
TEST(DeviceGroups, CountTheirRanksFromZero) {
  const TransportOf ways[] = {copying_backend(2), copying_backend(2)};
  run_ranks(local_backend, 4, [&](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.tensor = 2, .data = 2}, 4, transport->rank());
    const int tensor = transport->rank() % 2, data = transport->rank() / 2;
    GroupOptions options{.timeout_ns = kLongNs};
    options.device = std::make_shared<FakeMessages>(ways[tensor](data), Faults());
    Group group(transport, mesh, Axis::kData, options);
    for (const uint64_t count : kCounts) expect_collectives<float>(group, count);
  });
}

TEST(DeviceGroups, AreMadeOnNoRankWhereOneCannotJoin) {
  const Ranks ranks{.faults = [](int rank) { return Faults{.joining = rank == 1}; }};
  const auto thrown = ranks.attempt(2, all_reduce_on_device);
  EXPECT_EQ(code_of(thrown[1]), Code::kNotInBuild);
  expect_named({thrown[0], nullptr}, 1);
}

}  // namespace
}  // namespace rl
