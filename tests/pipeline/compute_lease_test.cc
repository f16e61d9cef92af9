// The compute leases of a runtime: in turn, first come, first served, or alone. Every wait has a
// deadline; leases end before the threads that wait for them are joined.
#include "pipeline/session/compute_lease.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "run_rig.h"
#include "support/expect_error.h"
#include "turns.h"

namespace rl {
namespace {

using testing::tiny_options;
using testing::wait_until_true;

// A runtime, and the turns of its leases in the order in which they began.
class Turns {
 public:
  explicit Turns(const char* busy_timeout = "0") : runtime_(options(dir_, busy_timeout)) {}

  Runtime& runtime() { return runtime_; }
  ComputeQueue& queue() { return runtime_.compute_queue(); }
  void note(int turn) {
    const std::lock_guard lock(mutex_);
    order_.push_back(turn);
  }
  std::vector<int> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  bool wait_for_waiting(int64_t count) {
    return wait_until_true([&] { return queue().num_waiting() == count; });
  }

 private:
  static OptionSet options(const TempDir& dir, const char* busy_timeout) {
    OptionSet o = tiny_options(dir);
    o.set_text("runtime.busy_timeout_ns", busy_timeout);
    return o;
  }

  const TempDir dir_;
  Runtime runtime_;
  std::mutex mutex_;
  std::vector<int> order_;
};

constexpr ComputeSharing kAlone = ComputeSharing::kAlone, kInTurn = ComputeSharing::kInTurn;

// Threads 1 to 4 come in this order, while thread 0 computes. Each yields once.
TEST(ComputeLease, TurnsAreFirstComeFirstServed) {
  Turns turns;
  std::vector<std::jthread> threads;
  {
    const ComputeLease own(turns.runtime(), "the first", kInTurn);
    for (int i = 1; i <= 4; ++i) {
      threads.emplace_back([&turns, i] {
        const ComputeLease lease(turns.runtime(), "another", kInTurn);
        turns.note(i);
        turns.queue().yield();
        turns.note(i);
      });
      EXPECT_TRUE(turns.wait_for_waiting(i));
    }
    turns.note(0);
    turns.queue().yield();
    EXPECT_EQ(turns.queue().num_waiting(), 4) << "each has had one turn and waits for the next";
    turns.note(0);
  }
  threads.clear();
  EXPECT_EQ(turns.order(), (std::vector<int>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(turns.queue().num_waiting(), 0);
}

// One that asks for a turn again and again gets one between two turns of another, not more.
TEST(ComputeLease, ANewLeaseIsBehindAllThatWait) {
  Turns turns;
  std::jthread eager;
  {
    const ComputeLease own(turns.runtime(), "a training step", kInTurn);
    eager = std::jthread([&] {
      for (int i = 0; i < 3; ++i) {
        const ComputeLease lease(turns.runtime(), "an engine step", kInTurn);
        turns.note(1);
      }
    });
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(turns.wait_for_waiting(1));
      turns.note(0);
      turns.queue().yield();
    }
  }
  eager.join();
  EXPECT_EQ(turns.order(), (std::vector<int>{0, 1, 0, 1, 0, 1}));
}

TEST(ComputeLease, YieldingReturnsAtOnceWhileNobodyWaits) {
  Turns turns;
  turns.queue().yield();
  for (const ComputeSharing sharing : {kAlone, kInTurn}) {
    const ComputeLease own(turns.runtime(), "a training step", sharing);
    turns.queue().yield();
    EXPECT_EQ(turns.queue().num_waiting(), 0);
  }
}

// On one thread, where a wait would never end.
TEST(ComputeLease, ALeaseAloneIsNeverWaitedFor) {
  Turns turns;
  const ComputeSharing pairs[][2] = {{kAlone, kAlone}, {kAlone, kInTurn}, {kInTurn, kAlone}};
  for (const auto& pair : pairs) {
    const ComputeSharing held = pair[0], wanted = pair[1];
    {
      const ComputeLease own(turns.runtime(), "the first", held);
      const Error e =
          expect_error(Code::kBusy, [&] { ComputeLease(turns.runtime(), "the second", wanted); });
      EXPECT_TRUE(contains(e.message, "the second cannot compute now")) << e.message;
      EXPECT_TRUE(contains(e.message, "busy with the first")) << e.message;
      turns.queue().yield();
    }
    const ComputeLease after(turns.runtime(), "the second", wanted);
  }
}

TEST(ComputeLease, ThoseThatComputeAloneWaitInTheOrderInWhichTheyCame) {
  Turns turns("1h");
  std::vector<std::jthread> threads;
  {
    const ComputeLease own(turns.runtime(), "the first");
    for (int i = 1; i <= 4; ++i) {
      threads.emplace_back([&turns, i] {
        const ComputeLease lease(turns.runtime(), "another", i == 3 ? kInTurn : kAlone);
        turns.note(i);
      });
      EXPECT_TRUE(turns.wait_for_waiting(i));
    }
    turns.queue().yield();
    turns.note(0);
  }
  threads.clear();
  EXPECT_EQ(turns.order(), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(turns.queue().num_waiting(), 0);
}

// Else leases in turn, of which there is always one, would keep it waiting for ever.
TEST(ComputeLease, OneThatWaitsToComputeAloneIsNotOvertaken) {
  Turns turns("1h");
  std::jthread alone, late;
  {
    const ComputeLease own(turns.runtime(), "a training step", kInTurn);
    alone = std::jthread([&] {
      const ComputeLease lease(turns.runtime(), "log-probs", kAlone);
      turns.note(1);
    });
    EXPECT_TRUE(turns.wait_for_waiting(1));
    late = std::jthread([&] {
      const ComputeLease lease(turns.runtime(), "an engine step", kInTurn);
      turns.note(2);
    });
    EXPECT_TRUE(turns.wait_for_waiting(2));
    turns.queue().yield();
    turns.note(0);
  }
  alone.join();
  late.join();
  EXPECT_EQ(turns.order(), (std::vector<int>{0, 1, 2}));
}

TEST(ComputeLease, WhatChangesTheSameThingIsNotSharedWith) {
  const int weights = 0, other_weights = 0;
  Turns turns("1h");
  std::jthread same, other;
  {
    const ComputeLease own(turns.runtime(), "a training step", kInTurn, &weights);
    other = std::jthread([&] {
      const ComputeLease lease(turns.runtime(), "another model's", kInTurn, &other_weights);
      turns.note(1);
    });
    EXPECT_TRUE(turns.wait_for_waiting(1));
    same = std::jthread([&] {
      const ComputeLease lease(turns.runtime(), "the same model's", kInTurn, &weights);
      turns.note(2);
    });
    EXPECT_TRUE(turns.wait_for_waiting(2));
    turns.queue().yield();
    EXPECT_EQ(turns.order(), std::vector<int>{1});
    turns.note(0);
  }
  same.join();
  EXPECT_EQ(turns.order(), (std::vector<int>{1, 0, 2}));
}

TEST(ComputeLease, AWaitEnds) {
  Turns turns("1us");
  {
    const ComputeLease own(turns.runtime(), "the first");
    const Error e = expect_error(Code::kBusy, [&] { ComputeLease(turns.runtime(), "the second"); });
    EXPECT_EQ(e.message,
              "the second cannot compute now: the runtime is busy with the first after waiting "
              "1000 ns");
    EXPECT_EQ(turns.queue().num_waiting(), 0);
  }
  const ComputeLease after(turns.runtime(), "the second");
}

TEST(ComputeLease, AWaitIsGivenUp) {
  Turns turns("1h");
  std::atomic<bool> given_up = false;
  const ComputeLease own(turns.runtime(), "the first");
  std::jthread other([&] {
    const ComputeWait wait{.given_up = &given_up};
    const Error e = expect_error(Code::kCancelled, [&] {
      ComputeLease(turns.runtime(), "the second", kAlone, nullptr, wait);
    });
    EXPECT_EQ(e.message, "the second cannot compute now: the runtime is busy with the first");
  });
  EXPECT_TRUE(turns.wait_for_waiting(1));
  turns.queue().note_given_up();
  EXPECT_EQ(turns.queue().num_waiting(), 1) << "the flag is not set";
  given_up = true;
  turns.queue().note_given_up();
  EXPECT_TRUE(turns.wait_for_waiting(0));
}

TEST(ComputeLease, WhoGivesUpKeepsNobodyWaiting) {
  constexpr int64_t kLongestWaitNs = int64_t{200} * 1'000'000;
  Turns turns("1h");
  std::jthread alone, late;
  const ComputeLease own(turns.runtime(), "a training step", kInTurn);
  alone = std::jthread([&] {
    expect_error(Code::kTimeout, [&] {
      ComputeLease(turns.runtime(), "log-probs", kAlone, nullptr, {.longest_ns = kLongestWaitNs});
    });
    turns.note(1);
  });
  EXPECT_TRUE(turns.wait_for_waiting(1));
  late = std::jthread([&] {
    const ComputeLease lease(turns.runtime(), "an engine step", kInTurn);
    turns.note(2);
  });
  EXPECT_TRUE(wait_until_true([&] {
    turns.queue().yield();
    return turns.order().size() == 2;
  }));
}

// Between two turns nobody computes, but the step that yielded is not over.
TEST(ComputeLease, AloneIsRefusedDuringTheTurnsOfOthers) {
  Turns turns;
  std::jthread other;
  {
    const ComputeLease own(turns.runtime(), "a training step", kInTurn);
    other = std::jthread([&] {
      const ComputeLease lease(turns.runtime(), "an engine step", kInTurn);
      const Error e =
          expect_error(Code::kBusy, [&] { ComputeLease(turns.runtime(), "log-probs", kAlone); });
      EXPECT_TRUE(contains(e.message, "busy with an engine step")) << e.message;
      turns.note(1);
    });
    EXPECT_TRUE(turns.wait_for_waiting(1));
    turns.queue().yield();
    EXPECT_EQ(turns.order(), (std::vector<int>{1}));
    const Error e =
        expect_error(Code::kBusy, [&] { ComputeLease(turns.runtime(), "log-probs", kAlone); });
    EXPECT_TRUE(contains(e.message, "busy with a training step")) << e.message;
  }
}

TEST(ComputeLease, WhoCouldNotBeginHearsOfEveryEnd) {
  Turns turns;
  ComputeQueue& queue = turns.queue();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    std::optional<ComputeLease> other(std::in_place, turns.runtime(), "something");
    const uint64_t seen = queue.num_changes();
    EXPECT_THROW(ComputeLease(turns.runtime(), "refused"), Error);
    std::jthread ends([&] { other.reset(); });
    queue.await_change(seen);
  }
  const uint64_t seen = queue.num_changes();
  queue.note_given_up();
  queue.await_change(seen);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60))
      << "a change that is missed costs a second";
}

}  // namespace
}  // namespace rl
