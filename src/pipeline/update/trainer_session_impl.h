// Private state of a TrainerSession. trainer_session.cc has the steps and forwards,
// trainer_checkpoint.cc saves and loads.
#pragma once
#include <atomic>
#include <mutex>

#include "core/arena.h"
#include "pipeline/session/event_sender.h"
#include "pipeline/update/host_gradients.h"
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
        options(given.set),
        plan(memory),
        workspace("training workspace", memory.train_workspace_bytes, Touch::kNow,
                  model.runtime().compute().memory()),
        update(model, given, memory, workspace.data()),
        host_gradients(model.runtime().ledger().memory()) {}

  const Objective objective;
  Settings settings;                 // as last changed
  mutable std::mutex options_mutex;  // a lock of its own, as of the flag above
  OptionSet options;                 // those of the settings
  EventSender events;
  const MemoryPlan plan;
  CancelFlag cancel;
  Arena workspace;
  PolicyUpdate update;
  HostGradients host_gradients;
  bool asleep = false;
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
        state_(trainer.mutex_) {
    trainer.require_awake();
  }

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

// Under the lock of the state. Tells at its end of weights that were published meanwhile, whatever
// failed after that.
class TrainerSession::Publication {
 public:
  explicit Publication(TrainerSession& trainer) : trainer_(trainer), before_(release()) {}
  ~Publication() {
    if (release() == before_) return;
    trainer_.impl_->events.send<PublishedEvent>([&](PublishedEvent& event) {
      event.step = trainer_.impl_->steps;
      event.version = trainer_.model_->version();
    });
  }
  Publication(const Publication&) = delete;

 private:
  uint64_t release() const { return trainer_.model_->model().published().release(); }

  TrainerSession& trainer_;
  const uint64_t before_;
};

}  // namespace rl
