// Handles: every misuse has its own code, tokens are never reused, a forked child is told so.
#include "core/handle_table.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr uint8_t kModel = 3;
constexpr uint8_t kEngine = 4;

std::shared_ptr<void> number(int n) { return std::make_shared<int>(n); }

TEST(HandleTable, FindsWhatWasInserted) {
  HandleTable table;
  const uint64_t a = table.insert(kModel, number(1));
  const uint64_t b = table.insert(kEngine, number(2));
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(*table.get_as<int>(a, kModel), 1);
  EXPECT_EQ(*table.get_as<int>(b, kEngine), 2);
  EXPECT_EQ(table.num_live(), 2u);
}

TEST(HandleTable, EveryMisuseHasItsCode) {
  HandleTable table;
  const uint64_t live = table.insert(kModel, number(1));
  const uint64_t gone = table.insert(kModel, number(2));
  table.remove(gone, kModel);
  const auto both = [&](Code code, uint64_t token, uint8_t kind) {
    expect_error(code, [&] { table.get(token, kind); });
    expect_error(code, [&] { table.remove(token, kind); });
  };
  both(Code::kInvalidArgument, 0, kModel);
  both(Code::kWrongHandle, live, kEngine);
  both(Code::kStaleHandle, gone, kModel);
  both(Code::kStaleHandle, gone, kEngine);
  both(Code::kStaleHandle, ~uint64_t{0}, kModel);
  both(Code::kStaleHandle, 1, kModel);
  both(Code::kStaleHandle, reinterpret_cast<uintptr_t>(&table), kModel);
  both(Code::kStaleHandle, live ^ (uint64_t{1} << 56), kModel);
  for (int bit = 0; bit < 56; ++bit) both(Code::kStaleHandle, live ^ (uint64_t{1} << bit), kModel);
  EXPECT_EQ(*table.get_as<int>(live, kModel), 1);
}

TEST(HandleTable, TokensAreNeverReused) {
  HandleTable table;
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t token = table.insert(kModel, number(i));
    EXPECT_TRUE(seen.insert(token).second);
    table.remove(token, kModel);
  }
  EXPECT_EQ(table.num_live(), 0u);
}

TEST(HandleTable, PayloadLivesAsLongAsItsLastUser) {
  HandleTable table;
  auto payload = std::make_shared<int>(9);
  const std::weak_ptr<int> watch = payload;
  const uint64_t token = table.insert(kModel, std::move(payload));
  auto user = table.get(token, kModel);
  table.remove(token, kModel);
  EXPECT_FALSE(watch.expired());
  user.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(HandleTable, PoisonedHandleCanOnlyBeRemoved) {
  HandleTable table;
  const uint64_t token = table.insert(kModel, number(1));
  table.poison(token, "invariant 3");
  const Error error = expect_error(Code::kInternal, [&] { table.get(token, kModel); });
  EXPECT_TRUE(contains(error.message, "invariant 3"));
  table.remove(token, kModel);
  const uint64_t next = table.insert(kModel, number(2));
  table.poison(token, "stale poison is ignored");
  table.poison(0, "null is ignored");
  EXPECT_EQ(*table.get_as<int>(next, kModel), 2);
}

TEST(HandleTable, APoisonKeepsItsCode) {
  HandleTable table;
  const uint64_t token = table.insert(kModel, number(1));
  table.poison(token, "fault 700", Code::kDeviceLost);
  const Error error = expect_error(Code::kDeviceLost, [&] { table.get(token, kModel); });
  EXPECT_TRUE(contains(error.message, "can only be destroyed: fault 700"));
  table.remove(token, kModel);
}

TEST(HandleTable, RacingRemovesHaveOneWinner) {
  HandleTable table;
  for (int round = 0; round < 200; ++round) {
    const uint64_t token = table.insert(kModel, number(round));
    std::atomic<int> wins{0};
    const auto race = [&] {
      try {
        table.get(token, kModel);
        table.remove(token, kModel);
        ++wins;
      } catch (const Error& error) {
        EXPECT_EQ(error.code, Code::kStaleHandle);
      }
    };
    std::thread a(race), b(race);
    a.join();
    b.join();
    ASSERT_EQ(wins.load(), 1);
  }
  EXPECT_EQ(table.num_live(), 0u);
}

TEST(HandleTable, ForkedChildIsToldSo) {
  HandleTable table;
  const uint64_t token = table.insert(kModel, number(1));
  EXPECT_FALSE(table.forked());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto code_of = [&](auto call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code;
      }
      return Code::kOk;
    };
    const bool reported = table.forked() &&
                          code_of([&] { table.get(token, kModel); }) == Code::kForked &&
                          code_of([&] { table.remove(token, kModel); }) == Code::kForked &&
                          code_of([&] { table.insert(kModel, number(2)); }) == Code::kForked;
    _exit(reported ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(*table.get_as<int>(token, kModel), 1);
}

TEST(HandleTable, AReservedTokenIsLiveOnceItIsFilled) {
  HandleTable table;
  const uint64_t token = table.reserve(kModel);
  EXPECT_EQ(expect_error(Code::kStaleHandle, [&] { table.get(token, kModel); }).code,
            Code::kStaleHandle);
  EXPECT_NE(table.insert(kModel, number(2)), token) << "nobody else gets it";
  EXPECT_EQ(table.num_live(), 1u);
  table.fill(token, number(1));
  EXPECT_EQ(*table.get_as<int>(token, kModel), 1);
  EXPECT_EQ(table.num_live(), 2u);
}

TEST(HandleTable, ACancelledTokenIsGivenToTheNext) {
  HandleTable table;
  const uint64_t token = table.reserve(kModel);
  table.cancel(token);
  EXPECT_EQ(table.num_live(), 0u);
  expect_error(Code::kStaleHandle, [&] { table.get(token, kModel); });
  EXPECT_EQ(table.insert(kModel, number(1)), token);
}

TEST(ForkGuard, KnowsAChildWithAndWithoutWipedPages) {
  const ForkGuard by_page, by_process_id(false);
  EXPECT_FALSE(by_page.forked());
  EXPECT_FALSE(by_process_id.forked());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit((by_page.forked() ? 1 : 0) | (by_process_id.forked() ? 2 : 0));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_FALSE(by_page.forked());
  EXPECT_FALSE(by_process_id.forked());
}

}  // namespace
}  // namespace rl
