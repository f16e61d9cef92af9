// A reply that comes too late while a reward model computes.
#include <atomic>

#include "../pipeline/scored_model.h"
#include "../pipeline/turn_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::finish;
using testing::next_of;
using testing::Rig;
using testing::RunLog;
using testing::turn_options;

constexpr int64_t kHour = 3600 * testing::kSecond;

class ShiftedClock final : public Clock {
 public:
  int64_t now_ns() const override { return real_clock().now_ns() + shift_ns; }
  int64_t unix_ns() const override { return real_clock().unix_ns(); }
  std::atomic<int64_t> shift_ns = 0;
};

// Calls back once when something computes.
class WatchedExecutor final : public Executor {
 public:
  explicit WatchedExecutor(std::function<void()>& next) : next_(next) {}
  int num_threads() const override { return executor_->num_threads(); }
  void parallel_for(int64_t count, FunctionRef<void(int64_t, int)> task) override {
    if (armed.exchange(false)) next_();
    executor_->parallel_for(count, task);
  }
  static inline std::atomic<bool> armed = false;

 private:
  std::function<void()>& next_;
  const std::unique_ptr<Executor> executor_ = make_thread_executor(1);
};

// The engine rests, for one sample of the group is finished and the other one waits for its reply:
// so what computes next is the reward model. Then the time for the reply is over, and the reply
// drops the group whose rewards are under way.
TEST(LateTurn, ALateReplyWhileARewardModelComputesDropsTheGroupAlone) {
  const TempDir dir;
  OptionSet o = turn_options(dir, {"pipeline.reply_timeout_ns=3600s", "pipeline.total_steps=1",
                                   "pipeline.prompts_per_step=1"});
  o.set_string("model.reward_path", testing::scored_model(dir));
  ShiftedClock clock;
  std::function<void()> when_it_computes;
  RuntimeSeams seams;
  seams.clock = &clock;
  seams.executor = std::make_unique<WatchedExecutor>(when_it_computes);
  Rig rig(o, std::move(seams));
  Pipeline& p = rig.pipeline();
  p.start();
  std::vector<SamplePtr> turns;
  while (turns.size() < 2) {
    const auto event = next_of(p, EventKind::kTurn);
    ASSERT_NE(event, nullptr);
    turns.push_back(static_cast<TurnEvent&>(*event).sample);
  }
  std::atomic<Code> late = Code::kOk;
  when_it_computes = [&] {
    clock.shift_ns = 2 * kHour;
    try {
      finish(p, turns[1]->id);
    } catch (const Error& e) {
      late = e.code;
    }
  };
  WatchedExecutor::armed = true;
  finish(p, turns[0]->id);
  const RunLog log = rig.serve();
  EXPECT_EQ(late, Code::kLate);
  EXPECT_EQ(log.steps.size(), 1u) << "the run goes on";
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardTimeout);
}

}  // namespace
}  // namespace rl
