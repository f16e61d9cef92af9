// Ranks that are late, leave or fail are named on every other rank, in time, and everything can be
// destroyed afterwards.
#include <chrono>

#include "comm/local_ranks.h"
#include "core/clock.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::Group;

constexpr int64_t kTimeoutNs = 200 * 1000000;
constexpr int64_t kSecondNs = 1000000000;

// Each rank but `absent` threw a RankError that names it.
void expect_named(const std::vector<std::exception_ptr>& thrown, int absent) {
  for (size_t r = 0; r < thrown.size(); ++r) {
    if (static_cast<int>(r) == absent) continue;
    ASSERT_NE(thrown[r], nullptr) << "rank " << r << " noticed nothing";
    try {
      std::rethrow_exception(thrown[r]);
    } catch (const RankError& error) {
      EXPECT_EQ(error.rank, absent) << error.message;
      EXPECT_EQ(error.location, str("rank ", absent));
      EXPECT_TRUE(contains(error.message, str("rank ", absent))) << r;
    }
  }
}

void all_reduce_one(Group& group) {
  std::vector<float> value(1);
  group.all_reduce(values_of(std::span<float>(value)));
}

TEST(LocalFailures, ARankThatDoesNotComeIsNamedInTime) {
  for (int absent = 0; absent < 4; ++absent) {
    const int64_t begin = real_clock().now_ns();
    expect_named(
        try_local_ranks(4,
                        [&](std::shared_ptr<Transport> transport) {
                          Group group(transport, {kTimeoutNs});
                          group.barrier();
                          if (group.rank() != absent) return all_reduce_one(group);
                          std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kTimeoutNs));
                        }),
        absent);
    EXPECT_LT(real_clock().now_ns() - begin, kTimeoutNs + kSecondNs);
  }
}

// Rank 3 is absent. Rank 0 never waits for it, but for rank 1 or 2, which wait for it.
TEST(LocalFailures, TheRankAtFaultIsNamedAndNotTheOneBetween) {
  const auto thrown = try_local_ranks(4, [](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.tensor = 2, .data = 2}, 4, transport->rank());
    Group tensor(transport, mesh, Axis::kTensor, {kTimeoutNs});
    Group data(transport, mesh, Axis::kData, {kTimeoutNs});
    if (transport->rank() == 3) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kTimeoutNs));
    } else if (transport->rank() == 0) {
      all_reduce_one(tensor);  // with rank 1
    } else if (transport->rank() == 1) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kTimeoutNs / 2));
      all_reduce_one(data);  // with rank 3; its own deadline is later than that of rank 0
    } else {
      all_reduce_one(tensor);  // with rank 3
    }
  });
  expect_named(thrown, 3);
}

TEST(LocalFailures, ARankThatLeavesIsNamedAtOnce) {
  const int64_t begin = real_clock().now_ns();
  expect_named(try_local_ranks(5,
                               [](std::shared_ptr<Transport> transport) {
                                 Group group(transport, {kLongNs});
                                 group.barrier();
                                 if (group.rank() != 2) all_reduce_one(group);
                               }),
               2);
  EXPECT_LT(real_clock().now_ns() - begin, 10 * kSecondNs);
}

TEST(LocalFailures, ARankThatFailsIsNamedWithItsReason) {
  const auto thrown = try_local_ranks(3, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {-1});
    if (group.rank() == 1) transport->fail("the disk is full");
    for (;;) all_reduce_one(group);
  });
  expect_named(thrown, 1);
  const Error error = expect_error(Code::kIo, [&] { std::rethrow_exception(thrown[0]); });
  EXPECT_TRUE(contains(error.message, "rank 1 of 3 failed: the disk is full"));
}

TEST(LocalFailures, AFailedGroupRefusesFurtherCallsAndNamesTheSameRank) {
  const auto thrown = try_local_ranks(3, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {kTimeoutNs});
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kTimeoutNs));
    } else {
      EXPECT_THROW(all_reduce_one(group), RankError);
    }
    Group another(transport, {kLongNs});
    another.barrier();  // also on the rank that was late
  });
  expect_named(thrown, 0);
  EXPECT_NE(thrown[0], nullptr);
}

// The message of one call has another size, or is of another call.
TEST(LocalFailures, CallsThatDifferNameBothEnds) {
  const auto sizes = try_local_ranks(2, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {kLongNs});
    std::vector<float> values(group.rank() == 0 ? 4 : 6);
    group.all_gather(values_of(std::span<float>(values)));
  });
  const auto calls = try_local_ranks(2, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {kLongNs});
    std::vector<float> values(4);
    if (group.rank() == 0)
      group.all_gather(values_of(std::span<float>(values)));
    else
      group.reduce_scatter(values_of(std::span<float>(values)));
  });
  for (size_t r = 0; r < 2; ++r) {
    const Error size = expect_error(Code::kIncompatible, [&] { std::rethrow_exception(sizes[r]); });
    EXPECT_TRUE(contains(size.message, "8"));
    EXPECT_TRUE(contains(size.message, "12"));
    const Error call = expect_error(Code::kIncompatible, [&] { std::rethrow_exception(calls[r]); });
    EXPECT_TRUE(contains(call.message, "all_gather on axis all"));
    EXPECT_TRUE(contains(call.message, "reduce_scatter on axis all"));
  }
}

TEST(LocalFailures, RanksThatWaitForOneAnotherAreToldSo) {
  const auto thrown = try_local_ranks(2, [](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.tensor = 2}, 2, transport->rank());
    Group tensor(transport, mesh, Axis::kTensor, {kTimeoutNs});
    Group all(transport, {kTimeoutNs});
    if (transport->rank() == 0)
      tensor.barrier();
    else
      all.barrier();
  });
  for (const std::exception_ptr& each : thrown) {
    const Error error = expect_error(Code::kIo, [&] { std::rethrow_exception(each); });
    EXPECT_TRUE(contains(error.message, "wait for one another"));
  }
}

TEST(LocalFailures, UnusedAndFailedTransportsEndInAnyOrder) {
  auto transports = make_local_transports(4);
  transports[2].reset();
  Group group(transports[0], {kLongNs});
  EXPECT_THROW(group.barrier(), RankError);
  transports[0].reset();
  transports[3].reset();
  EXPECT_THROW(Group(transports[1], {kLongNs}).barrier(), RankError);
  transports.clear();
  EXPECT_THROW(group.barrier(), RankError);
}

TEST(LocalFailures, ThereIsAtLeastOneRank) {
  expect_error(Code::kOutOfRange, [] { make_local_transports(0); });
}

// Ranks leave at random moments of a stream of collectives.
TEST(LocalFailures, NothingHangsWhoeverLeavesWhen) {
  for (int round = 0; round < 30; ++round) {
    const int absent = round % 6;
    expect_named(try_local_ranks(6,
                                 [&](std::shared_ptr<Transport> transport) {
                                   Group group(transport, {kLongNs, 64});
                                   std::vector<float> values(100 + static_cast<size_t>(round));
                                   for (int call = 0;; ++call) {
                                     if (group.rank() == absent && call == round % 4) return;
                                     group.all_reduce(values_of(std::span<float>(values)));
                                   }
                                 }),
                 absent);
  }
}

}  // namespace
}  // namespace rl
