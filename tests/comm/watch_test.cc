// The watch alone, over pairs of connected sockets: who is lost, who left, who is late.
#include "comm/watch/watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>

#include "comm/transport.h"
#include "core/clock.h"
#include "support/expect_error.h"

namespace rl {
namespace {

constexpr int64_t kMillisecondNs = 1000000;
constexpr int64_t kTimeoutNs = 300 * kMillisecondNs;

// Links of all ranks: links[a][b] is that of a to b.
std::vector<std::vector<Socket>> connected(size_t size) {
  std::vector<std::vector<Socket>> out(size);
  for (auto& each : out) each.resize(size);
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = a + 1; b < size; ++b) {
      int pair[2];
      RL_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
      out[a][b] = Socket(pair[0]);
      out[b][a] = Socket(pair[1]);
    }
  }
  return out;
}

// A call that waits until the watch stops it.
struct Waiting {
  std::atomic<bool> stopped = false;
  WatchedCall call;
  Waiting(std::string_view what, std::vector<int> partners, int64_t timeout_ns = -1)
      : call{0, what, timeout_ns < 0 ? -1 : real_clock().now_ns() + timeout_ns, std::move(partners),
             [this] { stopped = true; }} {}

  // The failure that stops it, or that was there before.
  Error wait(Watch& watch) {
    return expect_error(Code::kRankLost, [&] {
      watch.begin(call);
      const int64_t until = real_clock().now_ns() + 20000 * kMillisecondNs;
      while (!stopped && real_clock().now_ns() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      watch.end(call);
      watch.raise(9, "nobody stopped it");
    });
  }
};

// Watches of all ranks on this thread.
struct Ranks {
  explicit Ranks(size_t size, int64_t timeout_ns = -1) {
    auto links = connected(size);
    for (size_t r = 0; r < size; ++r)
      watches.push_back(
          std::make_unique<Watch>(std::move(links[r]), static_cast<int>(r), timeout_ns));
  }
  std::vector<std::unique_ptr<Watch>> watches;
};

TEST(Watch, AConnectionThatEndsWithoutAFarewellIsALoss) {
  auto links = connected(3);
  Watch zero(std::move(links[0]), 0, -1), one(std::move(links[1]), 1, -1);
  links[2].clear();  // as the system does for a process that was killed
  for (Watch* const watch : {&zero, &one}) {
    const Error error = Waiting("a call", {0}).wait(*watch);
    EXPECT_EQ(error.location, "rank 2");
    EXPECT_TRUE(contains(error.message, "rank 2 of 3 was lost"));
  }
}

TEST(Watch, ARankThatIsNotHeardIsLostInTime) {
  auto links = connected(3);
  const int64_t begin = real_clock().now_ns();
  Watch zero(std::move(links[0]), 0, kTimeoutNs), one(std::move(links[1]), 1, kTimeoutNs);
  for (Watch* const watch : {&zero, &one}) {
    const Error error = Waiting("a call", {0, 1}).wait(*watch);
    EXPECT_EQ(error.location, "rank 2");
    EXPECT_TRUE(contains(error.message, "was not heard for"));
  }
  EXPECT_LT(real_clock().now_ns() - begin, kTimeoutNs + 1000 * kMillisecondNs);
}

TEST(Watch, HeartbeatsKeepRanksThatCallNothing) {
  const Ranks ranks(3, kTimeoutNs);
  std::this_thread::sleep_for(std::chrono::nanoseconds(4 * kTimeoutNs));
  for (const auto& watch : ranks.watches) {
    Waiting waiting("a call", {});
    watch->begin(waiting.call);
    watch->end(waiting.call);
  }
}

TEST(Watch, ALateCallNamesTheRankInNoCall) {
  Ranks ranks(4, kTimeoutNs);
  // 1 waits for 3, which is in no call; 0 waits for 1.
  Waiting one("one", {3});
  ranks.watches[1]->begin(one.call);
  Waiting zero("zero", {1}, kTimeoutNs);
  const Error error = zero.wait(*ranks.watches[0]);
  EXPECT_EQ(error.location, "rank 3");
  EXPECT_TRUE(contains(error.message, "did not come in time; rank 0 waited in zero"));
  for (const int other : {1, 2, 3}) {
    const Error same = expect_error(
        Code::kRankLost, [&] { ranks.watches[static_cast<size_t>(other)]->raise(other, "none"); });
    EXPECT_EQ(same.message, error.message);
  }
  EXPECT_TRUE(one.stopped);
  ranks.watches[1]->end(one.call);
}

TEST(Watch, AFarewellIsNoFailureUntilSomebodyWaitsForTheRank) {
  Ranks ranks(3);
  ranks.watches[2].reset();
  Waiting among_others("a call", {1});
  ranks.watches[0]->begin(among_others.call);
  EXPECT_FALSE(among_others.stopped);
  ranks.watches[0]->end(among_others.call);
  Waiting for_it("a call", {2});
  const Error error = expect_error(Code::kRankLost, [&] { ranks.watches[0]->begin(for_it.call); });
  EXPECT_TRUE(contains(error.message, "rank 2 of 3 left before a call was done"));
}

// Rank 2 came to the call and left: what it sent may still be under way.
TEST(Watch, AFarewellDoesNotEndACallThatTheRankCameTo) {
  Ranks ranks(3);
  Waiting own("a call", {2}), its("a call", {0});
  ranks.watches[0]->begin(own.call);
  ranks.watches[2]->begin(its.call);
  ranks.watches[2]->end(its.call);
  ranks.watches[2].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(own.stopped);
  ranks.watches[0]->end(own.call);
}

TEST(Watch, TheFirstFailureIsThatOfAll) {
  Ranks ranks(3);
  ranks.watches[1]->fail({1, "the disk is full"});
  EXPECT_EQ(Waiting("a call", {1}).wait(*ranks.watches[2]).message, "the disk is full");
  ranks.watches[2]->fail({2, "another"});
  for (int r = 0; r < 3; ++r) {
    Watch& watch = *ranks.watches[static_cast<size_t>(r)];
    EXPECT_EQ(Waiting("a call", {(r + 1) % 3}).wait(watch).message, "the disk is full");
  }
}

// A group of one rank exchanges nothing.
TEST(Watch, ACallWithoutPartnersIsNeverLate) {
  Ranks ranks(2);
  WatchedCall alone{0, "a call", real_clock().now_ns() - 1, {}, [] { FAIL() << "it was stopped"; }};
  ranks.watches[0]->begin(alone);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks.watches[0]->end(alone);
  Waiting other("another", {1}, 50 * kMillisecondNs);
  EXPECT_EQ(other.wait(*ranks.watches[0]).location, "rank 1");
}

TEST(Watch, BytesThatNoRankSendsAreALoss) {
  for (const std::string& bytes :
       {std::string("\x09\x00\x00\x00\x00", 5), std::string("\x01\xff\xff\xff\xff", 5),
        std::string("\x05\x01\x00\x00\x00x", 6), std::string("\x04\x00\x00\x00\x00", 5)}) {
    auto links = connected(2);
    Watch zero(std::move(links[0]), 0, -1);
    ASSERT_TRUE(send_all(links[1][0], std::as_bytes(std::span(bytes)), -1));
    EXPECT_EQ(Waiting("a call", {1}).wait(zero).location, "rank 1");
  }
}

TEST(Watch, EndsSoonBesideARankThatDoesNotAnswer) {
  auto links = connected(2);
  auto zero = std::make_unique<Watch>(std::move(links[0]), 0, -1);
  const int64_t begin = real_clock().now_ns();
  zero.reset();
  EXPECT_LT(real_clock().now_ns() - begin, 1000 * kMillisecondNs);
}

}  // namespace
}  // namespace rl
