// A host whose scores come late: after other groups, and after steps.
#pragma once
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "run_rig.h"

namespace rl::testing {

// Unless its group was dropped before the reward came.
inline void reward_unless_late(Pipeline& p, const SamplePtr& s, double reward) {
  try {
    p.score(s->id, reward);
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kLate) << e.message;
  }
}
inline void score_unless_late(Pipeline& p, const SamplePtr& s) {
  reward_unless_late(p, s, low_id_reward(*s));
}

// Scores come late and in another order, from a thread of its own.
class LateScorer {
 public:
  explicit LateScorer(Rig& rig) : thread_([this, &rig] { work(rig.pipeline()); }) {
    rig.on_score = [this](Pipeline&, const SamplePtr& s) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(s);
    };
  }
  ~LateScorer() {
    ended_ = true;
    thread_.join();
  }

 private:
  void work(Pipeline& pipeline) {
    while (!ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::vector<SamplePtr> due;
      {
        const std::lock_guard lock(mutex_);
        due.swap(waiting_);
      }
      for (auto it = due.rbegin(); it != due.rend(); ++it) score_unless_late(pipeline, *it);
    }
  }

  std::mutex mutex_;
  std::vector<SamplePtr> waiting_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace rl::testing
