// Futures: one completion, waiting with timeouts, waiting for any, cancel as a request.
#include "core/future.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/expect_error.h"

namespace rl {
namespace {

std::shared_ptr<void> number(int n) { return std::make_shared<int>(n); }

TEST(Future, CompletesOnceWithTheFirstResult) {
  Future future;
  EXPECT_FALSE(future.is_complete());
  expect_error(Code::kFailedPrecondition, [&] { future.value(); });
  EXPECT_TRUE(future.complete(number(5)));
  EXPECT_FALSE(future.complete(number(6)));
  EXPECT_FALSE(future.fail(Error(Code::kIo, "too late")));
  EXPECT_TRUE(future.is_complete());
  EXPECT_EQ(*future.value_as<int>(), 5);
}

TEST(Future, ErrorIsThrownWithAllItsDetailsEveryTime) {
  Future future;
  EXPECT_TRUE(future.fail(Error(Code::kDataLoss, "bad block").with_key("k").with_system_code(5)));
  for (int i = 0; i < 2; ++i) {
    const Error error = expect_error(Code::kDataLoss, [&] { future.value(); });
    EXPECT_EQ(error.message, "bad block");
    EXPECT_EQ(error.key, "k");
    EXPECT_EQ(error.system_code, 5);
  }
}

TEST(Future, WaitKeepsToItsTimeout) {
  Future future;
  EXPECT_FALSE(future.wait(0));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(future.wait(10'000'000));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(10));
  std::thread producer([&] { future.complete(number(1)); });
  EXPECT_TRUE(future.wait(-1));
  producer.join();
  EXPECT_TRUE(future.wait(0));
}

TEST(Future, CancelIsARequestThatTheProducerAnswers) {
  Future future;
  EXPECT_FALSE(future.is_cancelled());
  future.cancel();
  future.cancel();
  EXPECT_TRUE(future.is_cancelled());
  EXPECT_FALSE(future.is_complete());
  EXPECT_TRUE(future.fail(Error(Code::kCancelled, "cancelled")));
  expect_error(Code::kCancelled, [&] { future.value(); });
}

TEST(Future, WaitAnyReturnsTheLowestCompleteOne) {
  std::vector<std::shared_ptr<Future>> futures;
  for (int i = 0; i < 3; ++i) futures.push_back(std::make_shared<Future>());
  EXPECT_EQ(Future::wait_any(futures, 0), std::nullopt);
  EXPECT_EQ(Future::wait_any(futures, 1'000'000), std::nullopt);
  futures[2]->complete(number(2));
  EXPECT_EQ(Future::wait_any(futures, -1), size_t{2});
  futures[1]->fail(Error(Code::kIo, "x"));
  EXPECT_EQ(Future::wait_any(futures, 0), size_t{1});
  expect_error(Code::kInvalidArgument, [] { Future::wait_any({}, 0); });
}

TEST(Future, WaitAnyTakesTheSameFutureTwice) {
  const auto future = std::make_shared<Future>();
  const std::vector<std::shared_ptr<Future>> futures = {future, future};
  std::thread producer([&] { future->complete(number(1)); });
  EXPECT_EQ(Future::wait_any(futures, -1), size_t{0});
  producer.join();
}

TEST(Future, WaitAnyWakesForEachOfManyCompletions) {
  constexpr size_t kCount = 200;
  std::vector<std::shared_ptr<Future>> pending;
  for (size_t i = 0; i < kCount; ++i) pending.push_back(std::make_shared<Future>());
  const auto all = pending;
  std::thread producer([&] {
    for (size_t i = 0; i < kCount; ++i) all[(i * 37) % kCount]->complete(number(1));
  });
  size_t seen = 0;
  while (!pending.empty()) {
    const auto index = Future::wait_any(pending, -1);
    ASSERT_TRUE(index.has_value());
    pending.erase(pending.begin() + static_cast<ptrdiff_t>(*index));
    ++seen;
  }
  producer.join();
  EXPECT_EQ(seen, kCount);
}

TEST(Future, RacingCompletionsHaveOneWinner) {
  for (int round = 0; round < 100; ++round) {
    Future future;
    std::atomic<int> wins{0};
    std::thread a([&] { wins += future.complete(number(1)) ? 1 : 0; });
    std::thread b([&] { wins += future.fail(Error(Code::kIo, "x")) ? 1 : 0; });
    a.join();
    b.join();
    ASSERT_EQ(wins.load(), 1);
  }
}

}  // namespace
}  // namespace rl
