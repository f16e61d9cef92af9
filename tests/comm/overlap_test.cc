// Collectives that run while their rank computes: the bits of the called ones, in the order of
// their start, with failures at wait().
#include <atomic>

#include "comm/collective_checks.h"
#include "comm/local_ranks.h"
#include "core/clock.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using comm::Group;

constexpr int64_t kTimeoutNs = 200 * 1000000;
constexpr uint64_t kCount = 3000;

uint32_t random(uint32_t seed, uint32_t a, uint32_t b) {
  return philox4x32_10({seed, a, b, 9}, {3, 4})[0];
}

void nap(uint32_t word) { std::this_thread::sleep_for(std::chrono::microseconds(word % 400)); }

// One collective of a program that every rank runs.
struct Operation {
  int kind;
  std::vector<float> values, target;

  Operation(int kind, int rank, uint64_t count)
      : kind(kind), values(values_at<float>(rank, count)), target(kind == 3 ? count : 0) {}

  StartedCall start(Group& group) {
    switch (kind) {
      case 0:
        return group.start_all_reduce(of(values));
      case 1:
        return group.start_reduce_scatter(of(values), Reduction::kMax);
      case 2:
        return group.start_all_gather(of(values));
      case 3:
        return group.start_all_to_all(of_const(values), of(target));
      default:
        return group.start_broadcast(of(values), kind % group.size());
    }
  }
  void call(Group& group) {
    switch (kind) {
      case 0:
        return group.all_reduce(of(values));
      case 1:
        return group.reduce_scatter(of(values), Reduction::kMax);
      case 2:
        return group.all_gather(of(values));
      case 3:
        return group.all_to_all(of_const(values), of(target));
      default:
        return group.broadcast(of(values), kind % group.size());
    }
  }
  bool same(const Operation& other) const {
    return same_bits(values, other.values) && same_bits(target, other.target);
  }
};

std::vector<Operation> program(uint32_t seed, int rank, int size) {
  std::vector<Operation> out;
  for (uint32_t i = 0; i < 12; ++i) {
    const uint64_t count = random(seed, i, 1) % kCount / static_cast<uint64_t>(size);
    out.emplace_back(static_cast<int>(random(seed, i, 0) % 6), rank,
                     count * static_cast<uint64_t>(size));
  }
  return out;
}

// Starts the operations; a called barrier stands between some. Waits in an order of the rank's own.
void run_overlapped(Group& group, std::vector<Operation>& operations, uint32_t seed) {
  const auto rank = static_cast<uint32_t>(group.rank());
  std::vector<StartedCall> started;
  for (uint32_t i = 0; i < operations.size(); ++i) {
    started.push_back(operations[i].start(group));
    nap(random(seed, i, 10 + rank));
    if (random(seed, i, 2) % 5 == 0) group.barrier();
  }
  while (!started.empty()) {
    const size_t next =
        random(seed, static_cast<uint32_t>(started.size()), 20 + rank) % started.size();
    started[next].wait();
    started.erase(started.begin() + static_cast<std::ptrdiff_t>(next));
  }
}

TEST(Overlap, SameBitsAsCalledOnesInAnyOrderOfWaiting) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const int size = 1 + static_cast<int>(seed % 5);
    run_local_groups(size,
                     [&](Group& group) {
                       std::vector<Operation> called = program(seed, group.rank(), size);
                       std::vector<Operation> overlapped = called;
                       for (Operation& each : called) each.call(group);
                       run_overlapped(group, overlapped, seed);
                       for (size_t i = 0; i < called.size(); ++i) {
                         EXPECT_TRUE(overlapped[i].same(called[i])) << seed << ": " << i;
                       }
                     },
                     {kLongNs, 256});
  }
}

// Rank 1 comes only after rank 0 has gone on: a call that waited would never return.
TEST(Overlap, AStartDoesNotWaitForOtherRanks) {
  std::atomic<bool> went_on = false;
  run_local_groups(2, [&](Group& group) {
    std::vector<float> a = values_at<float>(group.rank(), 100), b = a;
    if (group.rank() == 1) {
      while (!went_on) nap(100);
    }
    StartedCall first = group.start_all_reduce(of(a));
    StartedCall second = group.start_all_reduce(of(b));
    went_on = true;
    second.wait();
    first.wait();
    first.wait();  // has no call any more
    EXPECT_TRUE(same_bits(a, b));
    EXPECT_EQ(a[7], sum_at<float>(2, 7));
  });
}

TEST(Overlap, MessagesAreOverlappedToo) {
  run_local_groups(2, [](Group& group) {
    std::vector<int32_t> values(10, group.rank() == 0 ? 5 : 0);
    StartedCall message = group.rank() == 0 ? group.start_send(of_const(values), 1)
                                            : group.start_receive(of(values), 0);
    message.wait();
    EXPECT_EQ(values[9], 5);
  });
}

TEST(Overlap, AHandleThatNobodyWaitsForEndsItsCollective) {
  run_local_groups(3, [](Group& group) {
    std::vector<float> values = values_at<float>(group.rank(), 500);
    { const StartedCall dropped = group.start_all_reduce(of(values)); }
    EXPECT_EQ(values[499], sum_at<float>(3, 499));
    StartedCall handle = group.start_all_reduce(of(values));
    handle = group.start_all_gather(of(values));
    handle.wait();
  });
}

TEST(Overlap, ArgumentsAreCheckedAtTheStart) {
  run_local_groups(1, [](Group& group) {
    std::vector<float> values(3);
    std::vector<std::byte> bytes(3);
    expect_error(Code::kUnsupported, [&] { group.start_all_reduce(of(bytes)); });
    expect_error(Code::kOutOfRange, [&] { group.start_broadcast(of(values), 1); });
    expect_error(Code::kInvalidArgument, [&] { group.start_send(of_const(values), 0); });
    expect_error(Code::kInvalidArgument,
                 [&] { group.start_all_to_all(of_const(values), of(values)); });
  });
}

TEST(Overlap, OtherOrdersOfStartAreNamedAtWait) {
  const auto thrown = try_local_ranks(2, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {kLongNs});
    std::vector<float> a(4), b(4);
    StartedCall first =
        group.rank() == 0 ? group.start_all_gather(of(a)) : group.start_reduce_scatter(of(a));
    StartedCall second =
        group.rank() == 0 ? group.start_reduce_scatter(of(b)) : group.start_all_gather(of(b));
    first.wait();
  });
  for (const std::exception_ptr& each : thrown) {
    const Error error = expect_error(Code::kIncompatible, [&] { std::rethrow_exception(each); });
    EXPECT_TRUE(contains(error.message, "all_gather on axis all"));
    EXPECT_TRUE(contains(error.message, "reduce_scatter on axis all"));
  }
}

TEST(Overlap, TimeoutsSurfaceAtEveryWait) {
  const int64_t begin = real_clock().now_ns();
  run_local_ranks(3, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {kTimeoutNs});
    group.barrier();
    if (group.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kTimeoutNs));
      return;
    }
    std::vector<float> a(8), b(8);
    StartedCall first = group.start_all_reduce(of(a)), second = group.start_all_gather(of(b));
    for (StartedCall* each : {&second, &first}) {
      const Error error = expect_error(Code::kRankLost, [&] { each->wait(); });
      EXPECT_EQ(error.location, "rank 2");
    }
    EXPECT_EQ(expect_error(Code::kRankLost, [&] { group.barrier(); }).location, "rank 2");
  });
  EXPECT_LT(real_clock().now_ns() - begin, kTimeoutNs + 1000000000);
}

// A rank leaves, or fails, at a random moment with collectives under way. Others name it at each
// wait from then on, or drop their handles; nothing hangs.
TEST(Overlap, RanksThatEndWithCollectivesUnderWayAreNamed) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const int absent = static_cast<int>(seed % 4);
    const uint32_t last = random(seed, 0, 3) % 12;
    run_local_ranks(4, [&](std::shared_ptr<Transport> transport) {
      Group group(transport, {kLongNs, 64});
      const int rank = group.rank();
      std::vector<Operation> operations = program(seed, rank, 4);
      std::vector<StartedCall> started;
      for (uint32_t i = 0; i < operations.size(); ++i) {
        if (rank == absent && i == last) {
          if (seed % 2 == 0) transport->fail("the disk is full");
          return;
        }
        started.push_back(operations[i].start(group));
        nap(random(seed, i, 30 + static_cast<uint32_t>(rank)));
      }
      if (seed % 3 == 0) return;  // drops its handles
      const Error error = expect_error(Code::kRankLost, [&] {
        for (StartedCall& each : started) each.wait();
        group.barrier();
      });
      EXPECT_EQ(error.location, str("rank ", absent)) << seed;
    });
  }
}

}  // namespace
}  // namespace rl
