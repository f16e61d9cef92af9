// Ranks that are late, leave or fail are named on every other rank, in time, and everything can be
// destroyed afterwards.
//
// A suite for any backend: a test program instantiates RankFailures with its own.
#pragma once
#include <chrono>

#include "comm/rank_threads.h"
#include "core/clock.h"
#include "support/expect_error.h"

namespace rl {

class RankFailures : public ::testing::TestWithParam<Backend> {};

constexpr int64_t kTimeoutNs = 500 * 1000000;
constexpr int64_t kSecondNs = 1000000000;

// Ranks of some backends begin at different times.
inline void wait_for_all(const std::shared_ptr<Transport>& transport) {
  comm::Group(transport, {kLongNs}).barrier();
}

inline void all_reduce_one(comm::Group& group) {
  std::vector<float> value(1);
  group.all_reduce(values_of(std::span<float>(value)));
}

TEST_P(RankFailures, ARankThatDoesNotComeIsNamedInTime) {
  for (int absent = 0; absent < 4; ++absent) {
    expect_named(try_ranks(GetParam(), 4,
                           [&](std::shared_ptr<Transport> transport) {
                             wait_for_all(transport);
                             comm::Group group(transport, {kTimeoutNs});
                             const int64_t begin = real_clock().now_ns();
                             if (group.rank() != absent) {
                               EXPECT_THROW(all_reduce_one(group), RankError);
                               EXPECT_LT(real_clock().now_ns() - begin, kTimeoutNs + kSecondNs);
                               return all_reduce_one(group);
                             }
                             std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kTimeoutNs));
                           }),
                 absent);
  }
}

// Rank 3 is absent. Rank 0 never waits for it, but for rank 1 or 2, which wait for it.
TEST_P(RankFailures, TheRankAtFaultIsNamedAndNotTheOneBetween) {
  const auto thrown = try_ranks(GetParam(), 4, [](std::shared_ptr<Transport> transport) {
    wait_for_all(transport);
    const Mesh mesh({.tensor = 2, .data = 2}, 4, transport->rank());
    comm::Group tensor(transport, mesh, Axis::kTensor, {kTimeoutNs});
    comm::Group data(transport, mesh, Axis::kData, {kTimeoutNs});
    if (transport->rank() == 3) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kTimeoutNs));
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

TEST_P(RankFailures, ARankThatLeavesIsNamedAtOnce) {
  const int64_t begin = real_clock().now_ns();
  expect_named(try_ranks(GetParam(), 5,
                         [](std::shared_ptr<Transport> transport) {
                           comm::Group group(transport, {kLongNs});
                           group.barrier();
                           if (group.rank() != 2) all_reduce_one(group);
                         }),
               2);
  EXPECT_LT(real_clock().now_ns() - begin, 10 * kSecondNs);
}

TEST_P(RankFailures, ARankThatFailsIsNamedWithItsReason) {
  const auto thrown = try_ranks(GetParam(), 3, [](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {-1});
    if (group.rank() == 1) transport->fail("the disk is full");
    for (;;) all_reduce_one(group);
  });
  expect_named(thrown, 1);
  const Error error = expect_error(Code::kRankLost, [&] { std::rethrow_exception(thrown[0]); });
  EXPECT_TRUE(contains(error.message, "rank 1 of 3 failed: the disk is full"));
}

TEST_P(RankFailures, AFailedGroupRefusesFurtherCallsAndNamesTheSameRank) {
  const auto thrown = try_ranks(GetParam(), 3, [](std::shared_ptr<Transport> transport) {
    wait_for_all(transport);
    comm::Group group(transport, {kTimeoutNs});
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kTimeoutNs));
    } else {
      EXPECT_THROW(all_reduce_one(group), RankError);
    }
    comm::Group another(transport, {kLongNs});
    another.barrier();  // also on the rank that was late
  });
  expect_named(thrown, 0);
  EXPECT_NE(thrown[0], nullptr);
}

// The message of one call has another size, or is of another call.
TEST_P(RankFailures, CallsThatDifferNameBothEnds) {
  const auto sizes = try_ranks(GetParam(), 2, [](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    std::vector<float> values(group.rank() == 0 ? 4 : 6);
    group.all_gather(values_of(std::span<float>(values)));
  });
  const auto calls = try_ranks(GetParam(), 2, [](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
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

TEST_P(RankFailures, AreSaidByACheckToo) {
  expect_named(try_ranks(GetParam(), 3,
                         [](std::shared_ptr<Transport> transport) {
                           transport->check();
                           wait_for_all(transport);
                           if (transport->rank() == 1)
                             transport->fail("it has had enough");
                           else
                             EXPECT_THROW(wait_for_all(transport), RankError);
                           transport->check();
                         }),
               1);
}

TEST_P(RankFailures, RanksThatWaitForOneAnotherAreToldSo) {
  const auto thrown = try_ranks(GetParam(), 2, [](std::shared_ptr<Transport> transport) {
    wait_for_all(transport);
    const Mesh mesh({.tensor = 2}, 2, transport->rank());
    comm::Group tensor(transport, mesh, Axis::kTensor, {kTimeoutNs});
    comm::Group all(transport, {kTimeoutNs});
    if (transport->rank() == 0)
      tensor.barrier();
    else
      all.barrier();
  });
  for (const std::exception_ptr& each : thrown) {
    const Error error = expect_error(Code::kRankLost, [&] { std::rethrow_exception(each); });
    EXPECT_TRUE(contains(error.message, "wait for one another"));
  }
}

// Ranks leave at random moments of a stream of collectives.
TEST_P(RankFailures, NothingHangsWhoeverLeavesWhen) {
  for (int round = 0; round < 30; ++round) {
    const int absent = round % 6;
    expect_named(try_ranks(GetParam(), 6,
                           [&](std::shared_ptr<Transport> transport) {
                             comm::Group group(transport, {kLongNs, 64});
                             std::vector<float> values(100 + static_cast<size_t>(round));
                             for (int call = 0;; ++call) {
                               if (group.rank() == absent && call == round % 4) return;
                               group.all_reduce(values_of(std::span<float>(values)));
                             }
                           }),
                 absent);
  }
}

}  // namespace rl
