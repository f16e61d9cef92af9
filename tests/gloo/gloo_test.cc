// The backend over gloo with ranks that are threads: every collective, the failures of every
// backend, and the three ways to meet.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>

#include "comm/collective_checks.h"
#include "comm/failure_suite.h"
#include "comm/plugin/gloo_loader.h"
#include "comm/wire/socket.h"
#include "core/clock.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

using comm::Group;

constexpr int64_t kJoinNs = 30 * kSecondNs;

std::shared_ptr<Transport> join(int rank, int size, Rendezvous& rendezvous,
                                int64_t timeout_ns = kTimeoutNs) {
  return load_gloo_plugin(RL_GLOO_PLUGIN)
      .transport({rank, size, timeout_ns, kJoinNs, ""}, rendezvous);
}

// Ranks that meet in a directory of their own.
TransportOf gloo_backend(int size) {
  const auto dir = std::make_shared<TempDir>();
  return [dir, size](int rank) {
    return join(rank, size, *file_rendezvous(real_fs(), dir->path()), 20 * kSecondNs);
  };
}

INSTANTIATE_TEST_SUITE_P(Gloo, RankFailures, ::testing::Values(Backend(gloo_backend)));

TEST(Gloo, CollectivesDoWhatTheirDefinitionsSay) {
  for (const int size : {1, 2, 3, 4}) {
    run_groups(gloo_backend, size,
               [](Group& group) {
                 for (const uint64_t count : {0, 1, 7, 1000}) {
                   expect_collectives<float>(group, count);
                   expect_collectives<bf16>(group, count);
                   expect_collectives<int32_t>(group, count);
                   expect_collectives<int64_t>(group, count);
                   expect_collectives<std::byte>(group, count);
                 }
               },
               {kLongNs, 256});
  }
}

TEST(Gloo, AFailureIsKnownToARankThatExchangesNothing) {
  const auto thrown = try_ranks(gloo_backend, 2, [](std::shared_ptr<Transport> transport) {
    if (transport->rank() == 1) return transport->fail("it has had enough");
    const int64_t until = real_clock().now_ns() + 20 * kSecondNs;
    while (real_clock().now_ns() < until) {
      transport->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  expect_named(thrown, 1);
}

TEST(Gloo, LargeArraysHaveTheBitsOfTheOrderOfRanks) {
  run_groups(gloo_backend, 3, [](Group& group) {
    std::vector<float> values = values_at<float>(group.rank(), 1 << 20);
    group.all_reduce(of(values));
    for (const uint64_t i : {uint64_t{0}, uint64_t{99999}, uint64_t{(1 << 20) - 1}})
      EXPECT_EQ(values[i], sum_at<float>(3, i));
  });
}

TEST(Gloo, GroupsOfAMeshAndStartedCollectivesShareATransport) {
  run_ranks(gloo_backend, 4, [](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.tensor = 2, .data = 2}, 4, transport->rank());
    Group tensor(transport, mesh, Axis::kTensor, {kLongNs, 64});
    Group data(transport, mesh, Axis::kData, {kLongNs, 64});
    for (int round = 0; round < 50; ++round) {
      std::vector<int32_t> a(100, 1 << transport->rank()), b = a, c = a;
      StartedCall first = tensor.start_all_reduce(of(a)), second = data.start_all_reduce(of(b));
      StartedCall third = tensor.start_all_reduce(of(c));
      third.wait();
      second.wait();
      first.wait();
      int32_t tensor_sum = 0, data_sum = 0;
      for (const int rank : mesh.ranks(Axis::kTensor)) tensor_sum += 1 << rank;
      for (const int rank : mesh.ranks(Axis::kData)) data_sum += 1 << rank;
      EXPECT_EQ(a[99], tensor_sum);
      EXPECT_EQ(b[99], data_sum);
      EXPECT_EQ(c[0], tensor_sum);
    }
  });
}

TEST(Gloo, RanksMeetByAStore) {
  // A port that was free a moment ago.
  const std::string where = endpoint_text(own_end(listen_at({"127.0.0.1", 0})));
  const Backend backend = [&](int size) -> TransportOf {
    return
        [&where, size](int rank) { return join(rank, size, *tcp_rendezvous(where, rank, size)); };
  };
  run_ranks(backend, 3, [](std::shared_ptr<Transport> transport) {
    Group(std::move(transport), {kLongNs}).barrier();
  });
}

TEST(Gloo, ARankThatDoesNotJoinIsNamed) {
  const TempDir dir;
  const auto rendezvous = file_rendezvous(real_fs(), dir.path());
  const Error error = expect_error(Code::kRankLost, [&] {
    load_gloo_plugin(RL_GLOO_PLUGIN).transport({0, 2, kTimeoutNs, kTimeoutNs, ""}, *rendezvous);
  });
  EXPECT_EQ(error.location, "rank 1");
}

TEST(Gloo, RanksAreChecked) {
  const TempDir dir;
  const auto rendezvous = file_rendezvous(real_fs(), dir.path());
  for (const auto& [rank, size] : {std::pair{0, 0}, {-1, 2}, {2, 2}})
    expect_error(Code::kOutOfRange, [&] { join(rank, size, *rendezvous); });
}

// Gloo writes to connections whose other end may be gone.
TEST(Gloo, NoSignalReachesTheHost) {
  static std::atomic<int> signals;
  signals = 0;
  struct sigaction before, counting{};
  counting.sa_handler = [](int) { ++signals; };
  sigaction(SIGPIPE, &counting, &before);
  for (int round = 0; round < 10; ++round) {
    try_ranks(gloo_backend, 3, [](std::shared_ptr<Transport> transport) {
      Group group(transport, {kSecondNs});
      std::vector<float> values(100000);
      group.barrier();
      if (group.rank() == 1) return;
      for (;;) group.all_reduce(of(values));
    });
  }
  sigaction(SIGPIPE, &before, nullptr);
  EXPECT_EQ(signals, 0);
}

TEST(GlooPlugin, AnAbsentFileNamesItsPackage) {
  const Error error = expect_error(Code::kNotInBuild, [] { gloo_plugin(); });
  EXPECT_TRUE(contains(error.message, "gloo: unavailable, because "));
  EXPECT_TRUE(contains(error.message, "is not installed (package librl2-gloo)"));
  EXPECT_EQ(error.key, "comm.backend");
}

}  // namespace
}  // namespace rl
