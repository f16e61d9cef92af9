// Every wait of a run ends with what it waits for, or at its deadline on the run's clock. The clock
// stands still until a test moves it, so no wait can end by itself, and none goes unnoticed that
// outlives its deadline.
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "late_scorer.h"
#include "support/fake_clock.h"
#include "turn_rig.h"

namespace rl {
namespace {

using testing::kSecond;
using testing::LateScorer;
using testing::options_with;
using testing::Rig;
using testing::turn_options;
using Texts = std::vector<std::string>;

constexpr int64_t kDeadlineNs = 60 * kSecond;  // of the options below
// A loop that waits looks at its clock about once a second, in real time.
constexpr int64_t kTwoLooksNs = 2 * kSecond;

RuntimeSeams seams_with(const Clock& clock) {
  RuntimeSeams seams;
  seams.clock = &clock;
  seams.executor = make_thread_executor(1);
  return seams;
}

// The events that come until the run only waits.
std::vector<std::shared_ptr<Event>> events_of(Pipeline& p, int64_t quiet_ns) {
  std::vector<std::shared_ptr<Event>> events;
  for (;;) {
    EventQueue::Popped got = p.next(quiet_ns);
    if (got.status != Code::kOk) {
      EXPECT_EQ(got.status, Code::kTimeout);
      return events;
    }
    events.push_back(std::move(got.event));
  }
}

size_t count(const std::vector<std::shared_ptr<Event>>& events, EventKind kind) {
  return static_cast<size_t>(std::ranges::count_if(
      events, [&](const auto& e) { return static_cast<EventKind>(e->kind()) == kind; }));
}

// Nothing answers. At the deadline every group still waits; behind it each is dropped.
void expect_dropped_behind_the_deadline(const OptionSet& options, EventKind asked,
                                        size_t group_size) {
  FakeClock clock;
  clock.advance(1000);
  Rig rig(options, seams_with(clock));
  Pipeline& p = rig.pipeline();
  p.start();
  const size_t num_groups = count(events_of(p, kTwoLooksNs), asked) / group_size;
  ASSERT_GT(num_groups, 0u);
  clock.advance(kDeadlineNs);
  EXPECT_EQ(events_of(p, kTwoLooksNs).size(), 0u) << "ended before its deadline";
  clock.advance(1);
  size_t dropped = 0;
  while (dropped < num_groups) {
    const auto event = testing::next_of(p, EventKind::kGroupDropped);
    ASSERT_NE(event, nullptr);
    const auto& group = static_cast<const GroupDroppedEvent&>(*event);
    EXPECT_EQ(group.reason, DropReason::kRewardTimeout);
    ++dropped;
  }
  EXPECT_TRUE(p.stop(20 * kSecond));
}

TEST(Waits, AScoreThatDoesNotComeIsWaitedForUntilItsDeadline) {
  const TempDir dir;
  const std::map<std::string, Texts> modes = {
      {"sync", {}},
      {"one_step_off", {"model.compute_copies=2"}},
      {"async", {"model.compute_copies=2", "pipeline.max_staleness=1"}}};
  for (const auto& [mode, more] : modes) {
    SCOPED_TRACE(mode);
    OptionSet o = options_with(dir, more);
    o.set_text("pipeline.mode", mode);
    o.set_i64("pipeline.reward_timeout_ns", kDeadlineNs);
    expect_dropped_behind_the_deadline(o, EventKind::kScore, 4);
  }
}

TEST(Waits, AReplyThatDoesNotComeIsWaitedForUntilItsDeadline) {
  const TempDir dir;
  OptionSet o = turn_options(dir);
  o.set_i64("pipeline.reply_timeout_ns", kDeadlineNs);
  expect_dropped_behind_the_deadline(o, EventKind::kTurn, 2);
}

// Without what wakes it up a wait would last until the loop looks again, for a second each.
class Wakes : public ::testing::Test {
 protected:
  ~Wakes() override {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    EXPECT_LT(spent, std::chrono::milliseconds(500) * waits_);
  }

  static void delay() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

  const TempDir dir_;
  FakeClock clock_;
  int waits_ = 20;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_F(Wakes, AScoreEndsAWait) {
  OptionSet o = options_with(dir_, {"pipeline.total_steps=20"});
  o.set_i64("pipeline.reward_timeout_ns", kDeadlineNs);
  Rig rig(o, seams_with(clock_));
  LateScorer scorer(rig);
  EXPECT_EQ(rig.start_and_serve().steps.size(), 20u);
}

TEST_F(Wakes, AReplyEndsAWait) {
  Rig rig(turn_options(dir_, {"pipeline.total_steps=10"}), seams_with(clock_));
  rig.on_turn = [](Pipeline& p, const TurnEvent& e) {
    delay();
    testing::use_tool(p, e);
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 10u);
}

TEST_F(Wakes, ARowOfTheFeedEndsAWait) {
  OptionSet o = options_with(dir_, {"pipeline.total_steps=5"});
  o.set_string("data.path", "");
  Rig rig(o, seams_with(clock_));
  std::jthread host([&] {
    for (int32_t i = 0; i < 20; ++i) {
      delay();
      EXPECT_TRUE(rig.pipeline().feed_ids({1, 10 + i}, ""));
    }
  });
  EXPECT_EQ(rig.start_and_serve().steps.size(), 5u);
}

TEST_F(Wakes, TheEndOfTheFeedAndAStopEndAWait) {
  OptionSet o = options_with(dir_, {});
  o.set_string("data.path", "");
  for (int i = 0; i < waits_; ++i) {
    Rig rig(o, seams_with(clock_));
    rig.pipeline().start();
    std::jthread host([&] {
      delay();
      if (i % 2 == 0) rig.pipeline().end_feed();
      if (i % 2 == 1) rig.pipeline().stop(0);
    });
    EXPECT_EQ(rig.serve().end, Code::kDone);
  }
}

TEST_F(Wakes, TheEndOfAPauseEndsAWait) {
  Rig rig(options_with(dir_, {"pipeline.total_steps=20"}), seams_with(clock_));
  std::jthread host;
  rig.on_step = [&](Pipeline& p, const StepEvent&) {
    p.pause();
    host = std::jthread([&p] {
      delay();
      p.unpause();
    });
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 20u);
}

}  // namespace
}  // namespace rl
