// Ranks whose messages a host moves: every collective and failure over a host that has local ranks,
// and hosts that break each of their promises.
#include "comm/host/host_transport.h"

#include <cstring>
#include <functional>

#include "comm/collective_checks.h"
#include "comm/local_host.h"

namespace rl {
namespace {

using comm::Group;

TEST(HostTransport, CollectivesDoWhatTheirDefinitionsSay) {
  for (const int size : {1, 2, 3, 4, 7}) {
    run_groups(host_backend, size,
               [](Group& group) {
                 for (const uint64_t count : {0, 1, 5, 1000}) {
                   expect_collectives<float>(group, count);
                   expect_collectives<bf16>(group, count);
                   expect_collectives<int64_t>(group, count);
                   expect_collectives<std::byte>(group, count);
                 }
               },
               {kLongNs, 256});
  }
}

// Started collectives of several groups and called ones, on threads of their own.
TEST(HostTransport, AChannelHasOneCallAtATime) {
  run_ranks(host_backend, 4, [](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.tensor = 2, .data = 2}, 4, transport->rank());
    Group tensor(transport, mesh, Axis::kTensor, {kLongNs, 64});
    Group data(transport, mesh, Axis::kData, {kLongNs, 64});
    for (int round = 0; round < 30; ++round) {
      std::vector<int32_t> a(50, 1), b = a, c = a;
      StartedCall first = tensor.start_all_reduce(of(a)), second = data.start_all_reduce(of(b));
      StartedCall third = tensor.start_all_gather(of(c));
      data.barrier();
      third.wait();
      EXPECT_EQ(a[0] + b[49], 4);
    }
  });
}

TEST(HostTransport, ALostRankIsNamedAndTheHostToldOnce) {
  const auto thrown = try_ranks(host_backend, 3, [](std::shared_ptr<Transport> transport) {
    Group group(transport, {kLongNs});
    if (group.rank() == 1) return transport->fail("the disk is full");
    EXPECT_THROW(group.barrier(), RankError);
    group.barrier();  // the same again, without asking the host
  });
  expect_named(thrown, 1);
  const Error error = expect_error(Code::kRankLost, [&] { std::rethrow_exception(thrown[0]); });
  EXPECT_EQ(error.system_code, 5);
}

// A host of two ranks that answers by a function.
class ScriptedHost final : public HostMessages {
 public:
  using Answer = std::function<Result(std::span<const HostMessage>, std::span<HostMessage>)>;
  struct Told {
    std::vector<int> about;  // of calls of abandon
  };
  explicit ScriptedHost(Answer answer, int rank = 0, int size = 2,
                        std::shared_ptr<Told> told = std::make_shared<Told>())
      : answer_(std::move(answer)), rank_(rank), size_(size), told_(std::move(told)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result exchange(uint64_t, std::span<const HostMessage> out, std::span<HostMessage> in,
                  int64_t) override {
    return answer_(out, in);
  }
  void abandon(int about, const std::string&) override { told_->about.push_back(about); }

 private:
  Answer answer_;
  int rank_, size_;
  const std::shared_ptr<Told> told_;
};

Error all_gather_over(ScriptedHost::Answer answer, Code code) {
  Group group(make_host_transport(std::make_unique<ScriptedHost>(std::move(answer))), {kLongNs});
  std::vector<float> values(8);
  return expect_error(code, [&] { group.all_gather(values_of(std::span<float>(values))); });
}

// As if the other rank did the same.
HostMessages::Result echo(std::span<const HostMessage> out, std::span<HostMessage> in) {
  for (size_t i = 0; i < in.size(); ++i) {
    std::memcpy(in[i].data, out[i].data, in[i].size);
    in[i].received = in[i].size;
  }
  return {0};
}

TEST(HostTransport, SizesThatCameAreChecked) {
  const Error error = all_gather_over(
      [](auto out, auto in) {
        const HostMessages::Result result = echo(out, in);
        in[0].received -= 1;
        return result;
      },
      Code::kIncompatible);
  EXPECT_TRUE(contains(error.message, "bytes from rank 1 in all_gather on axis all"));
}

TEST(HostTransport, AnotherCallAtTheOtherEndIsNamed) {
  const Error error = all_gather_over(
      [](auto out, auto in) {
        const HostMessages::Result result = echo(out, in);
        const uint64_t other_size = 99;
        std::memcpy(in[0].data, &other_size, sizeof other_size);
        return result;
      },
      Code::kIncompatible);
  EXPECT_TRUE(contains(error.message, "with 99 bytes for rank 0"));
}

// Whatever a host throws ends the ranks: it is told, and not asked again.
TEST(HostTransport, WhatAHostThrowsEndsTheRanks) {
  int asked = 0;
  const auto host = std::make_shared<ScriptedHost::Told>();
  Group group(make_host_transport(std::make_unique<ScriptedHost>(
                  [&](auto, auto) -> HostMessages::Result {
                    ++asked;
                    throw std::bad_alloc();
                  },
                  0, 2, host)),
              {kLongNs});
  for (int call = 0; call < 2; ++call) EXPECT_THROW(group.barrier(), std::bad_alloc);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(host->about, std::vector<int>{0});
}

TEST(HostTransport, AFailureThatNamesNoRankSaysSo) {
  const Error none =
      all_gather_over([](auto, auto) { return HostMessages::Result{7}; }, Code::kRankLost);
  EXPECT_TRUE(contains(none.message, "with code 7, which names no rank"));
  EXPECT_EQ(none.location, "rank 0");
  const Error absent = all_gather_over(
      [](auto, auto) {
        return HostMessages::Result{7, 2};
      },
      Code::kRankLost);
  EXPECT_TRUE(contains(absent.message, "which names rank 2, but there is none"));
  const Error named = all_gather_over(
      [](auto, auto) {
        return HostMessages::Result{7, 1};
      },
      Code::kRankLost);
  EXPECT_EQ(named.location, "rank 1");
}

TEST(HostTransport, RanksAreChecked) {
  for (const auto& [rank, size] : {std::pair{0, 0}, {-1, 2}, {2, 2}}) {
    expect_error(Code::kOutOfRange,
                 [&] { make_host_transport(std::make_unique<ScriptedHost>(echo, rank, size)); });
  }
}

}  // namespace
}  // namespace rl
