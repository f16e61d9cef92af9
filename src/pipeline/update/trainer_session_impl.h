// Private state of a TrainerSession. trainer_session.cc has the steps and forwards,
// trainer_checkpoint.cc saves and loads.
#pragma once
#include <atomic>
#include <mutex>

#include "core/arena.h"
#include "pipeline/update/policy_update.h"
#include "pipeline/update/trainer_session.h"

namespace rl {

// Whether a call that a cancel may end computes, or waits to. A lock of its own, because the
// session's is held by what computes.
class CancelFlag {
 public:
  void begin() { set(true, false); }
  void end() { set(false, false); }
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = computing_;
  }
  // Of the call that computes or waits.
  const std::atomic<bool>& cancelled() const { return cancelled_; }

 private:
  void set(bool computing, bool cancelled) {
    const std::lock_guard lock(mutex_);
    computing_ = computing;
    cancelled_ = cancelled;
  }
  std::mutex mutex_;
  bool computing_ = false;
  std::atomic<bool> cancelled_ = false;
};

struct TrainerSession::Impl {
  Impl(LoadedModel& model, const Settings& given, const MemoryPlan& memory)
      : objective(given.algo.objective),
        settings(given),
        plan(memory),
        workspace("training workspace", memory.train_workspace_bytes, Touch::kNow,
                  &model.runtime().ledger()),
        update(model, given, memory, workspace.data()) {}

  const Objective objective;
  Settings settings;  // as last changed
  const MemoryPlan plan;
  CancelFlag cancel;
  Arena workspace;
  PolicyUpdate update;
  uint64_t steps = 0;            // steps done
  uint64_t trained_version = 0;  // after the last of them
};

// The turn of a call that computes: its lock, the lease, then the lock of the state. With a flag a
// cancel ends the wait for the lease.
class TrainerSession::Turn {
 public:
  explicit Turn(TrainerSession& trainer, const char* what,
                ComputeSharing sharing = ComputeSharing::kAlone, CancelFlag* flag = nullptr)
      : calls_(trainer.computing_),
        cancellable_(flag),
        compute_(trainer.model_->runtime(), what, sharing, trainer.model_.get(),
                 {.given_up = flag != nullptr ? &flag->cancelled() : nullptr}),
        state_(trainer.mutex_) {}

 private:
  struct Cancellable {
    explicit Cancellable(CancelFlag* flag) : flag(flag) {
      if (flag != nullptr) flag->begin();
    }
    ~Cancellable() {
      if (flag != nullptr) flag->end();
    }
    CancelFlag* const flag;
  };

  const std::lock_guard<std::mutex> calls_;
  const Cancellable cancellable_;
  const ComputeLease compute_;
  const std::lock_guard<std::mutex> state_;
};

}  // namespace rl
