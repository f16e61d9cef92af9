// Collectives on values of a device, through a buffer in the host's memory: what they do with
// values of the host, whatever the windows.
#include "comm/staged_values.h"

#include "comm/device_arrays.h"
#include "comm/local_ranks.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::Group;

constexpr uint64_t kWindowBytes = 64;
// Of a device whose bytes are the complement of what they mean, so that a call which reads or
// writes them without a copy is wrong.
class FakeDevice final : public DeviceCopies {
 public:
  void to_host(const std::byte* device, std::span<std::byte> host) override {
    EXPECT_LE(host.size(), kWindowBytes);
    for (size_t i = 0; i < host.size(); ++i) host[i] = ~device[i];
  }
  void to_device(std::span<const std::byte> host, std::byte* device) override {
    EXPECT_LE(host.size(), kWindowBytes);
    for (size_t i = 0; i < host.size(); ++i) device[i] = ~host[i];
  }
};

GroupOptions options_with_staging() {
  GroupOptions options{.timeout_ns = kLongNs, .chunk_bytes = 24};
  options.staging =
      std::make_shared<StagedValues>(std::make_unique<FakeDevice>(), nullptr, kWindowBytes);
  return options;
}

void run_staged(const Backend& backend, int size, const std::function<void(Group&)>& body) {
  run_ranks(backend, size, [&](std::shared_ptr<Transport> transport) {
    Group group(std::move(transport), options_with_staging());
    body(group);
  });
}

template <typename T>
void expect_staged(Group& group, uint64_t count) {
  const auto same = [&](const std::function<void(const Values&)>& call) {
    expect_same<T>(group, count, call);
  };
  if constexpr (!std::is_same_v<T, std::byte>) {
    same([&](const Values& v) { group.all_reduce(v); });
    same([&](const Values& v) { group.all_reduce(v, Reduction::kMax); });
    same([&](const Values& v) { group.reduce_scatter(v); });
    same([&](const Values& v) { group.start_all_reduce(v).wait(); });
  }
  same([&](const Values& v) { group.all_gather(v); });
  for (int root = 0; root < group.size(); ++root)
    same([&](const Values& v) { group.broadcast(v, root); });
}

template <typename T>
class StagedCollectives : public ::testing::Test {};
using Types = ::testing::Types<float, bf16, int32_t, int64_t, std::byte>;
TYPED_TEST_SUITE(StagedCollectives, Types);

TYPED_TEST(StagedCollectives, HaveTheBitsOfTheHosts) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    for (int size = 1; size <= 4; ++size) {
      run_staged(backend, size, [](Group& group) {
        for (const uint64_t count : kCounts) expect_staged<TypeParam>(group, count);
      });
    }
  }
}

TEST(StagedPieces, MayBeOfAnySize) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    run_staged(backend, 4, [](Group& group) {
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
    });
  }
}

TEST(StagedMessages, GoFromRankToRank) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    run_staged(backend, 2, [](Group& group) {
      for (const uint64_t count : kCounts) {
        DeviceArray<float> values(values_at<float>(group.rank(), count));
        if (group.rank() == 0) {
          group.send(values.const_values(), 1);
        } else {
          group.receive(values.values(), 0);
        }
        EXPECT_TRUE(same_bits(values.host(), values_at<float>(0, count))) << count;
      }
    });
  }
}

TEST(StagedValues, TheBufferIsInTheLedger) {
  ArenaLedger ledger;
  const StagedValues staging(std::make_unique<FakeDevice>(), &ledger);
  ASSERT_EQ(ledger.entries().size(), 1u);
  EXPECT_EQ(ledger.entries()[0].name, StagedValues::kArena);
  EXPECT_EQ(ledger.bytes(), StagedValues::kWindowBytes);
  EXPECT_EQ(ledger.entries()[0].space, MemorySpace::kHost);
}

TEST(StagedValues, OtherCallsAndOtherGroupsRefuseThem) {
  run_staged(local_backend, 2, [](Group& group) {
    DeviceArray<float> from(values_at<float>(0, 4)), to(values_at<float>(0, 4));
    const Pieces pieces = even_pieces(4, 2);
    expect_error(Code::kUnsupported, [&] { group.all_to_all(from.const_values(), to.values()); });
    expect_error(Code::kUnsupported, [&] { group.shift(from.const_values(), to.values()); });
    expect_error(Code::kUnsupported,
                 [&] { group.scatter_chunks(from.values(), pieces, [](auto&&...) {}); });
  });
  run_local_groups(2, [](Group& group) {
    DeviceArray<float> values(values_at<float>(0, 4));
    const Error error =
        expect_error(Code::kUnsupported, [&] { group.all_reduce(values.values()); });
    EXPECT_TRUE(contains(error.message, "the host's memory")) << error.message;
    expect_error(Code::kUnsupported, [&] { group.send(values.const_values(), 1 - group.rank()); });
  });
}

}  // namespace
}  // namespace rl
