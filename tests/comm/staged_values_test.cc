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

GroupOptions options_with_staging() {
  GroupOptions options{.timeout_ns = kLongNs, .chunk_bytes = 24};
  options.staging =
      std::make_shared<StagedValues>(std::make_unique<ArrayCopies>(), nullptr, kWindowBytes);
  return options;
}

void run_staged(const Backend& backend, int size, const std::function<void(Group&)>& body) {
  run_ranks(backend, size, [&](std::shared_ptr<Transport> transport) {
    Group group(std::move(transport), options_with_staging());
    body(group);
  });
}

template <typename T>
class StagedCollectives : public ::testing::Test {};
using Types = ::testing::Types<float, bf16, int32_t, int64_t, std::byte>;
TYPED_TEST_SUITE(StagedCollectives, Types);

TYPED_TEST(StagedCollectives, HaveTheBitsOfTheHosts) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    for (int size = 1; size <= 4; ++size) {
      run_staged(backend, size, [](Group& group) {
        for (const uint64_t count : kCounts) {
          expect_same_collectives<TypeParam, !std::is_same_v<TypeParam, std::byte>>(group, count);
        }
      });
    }
  }
}

TEST(StagedPieces, MayBeOfAnySize) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    run_staged(backend, 4, expect_same_pieces);
  }
}

TEST(StagedPieces, GoAndComeInAnySize) {
  for (const Backend& backend : {Backend(local_backend), Backend(copying_backend)}) {
    for (int size = 2; size <= 4; ++size) {
      run_staged(backend, size, [](Group& group) {
        expect_uneven_all_to_all(group);
        for (const uint64_t count : kCounts) expect_uneven_shift(group, count);
      });
    }
  }
}

// A callback has the host's values, and what it leaves in a rank's piece is the device's.
TEST(StagedPieces, MayBeTakenByACallback) {
  run_staged(local_backend, 3, [](Group& group) {
    for (const uint64_t count : kCounts) {
      expect_same<float>(group, count, [&](const Values& values) {
        group.scatter_chunks(values, even_pieces(count, 3), [](auto parts, const Values& out) {
          reduce_in_rank_order(Reduction::kSum, parts, out);
        });
      });
    }
  });
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
  const StagedValues staging(std::make_unique<ArrayCopies>(), &ledger);
  ASSERT_EQ(ledger.entries().size(), 1u);
  EXPECT_EQ(ledger.entries()[0].name, StagedValues::kArena);
  EXPECT_EQ(ledger.bytes(), StagedValues::kWindowBytes);
  EXPECT_EQ(ledger.entries()[0].space, MemorySpace::kHost);
}

TEST(StagedValues, OtherGroupsRefuseThem) {
  run_local_groups(2, [](Group& group) {
    DeviceArray<float> values(values_at<float>(0, 4));
    const Error error =
        expect_error(Code::kUnsupported, [&] { group.all_reduce(values.values()); });
    EXPECT_TRUE(contains(error.message, "the host's memory")) << error.message;
    DeviceArray<float> more(values_at<float>(0, 4));
    const ConstValues from = more.const_values();
    expect_error(Code::kUnsupported, [&] { group.send(from, 1 - group.rank()); });
    expect_error(Code::kUnsupported, [&] { group.all_to_all(from, values.values()); });
    expect_error(Code::kUnsupported, [&] { group.shift(from, values.values()); });
  });
}

}  // namespace
}  // namespace rl
