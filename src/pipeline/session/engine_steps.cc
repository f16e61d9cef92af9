// The steps of an engine, on the host's threads and on its own, and what halts them. A call that
// computes locks computing_, waits for its lease, and only then locks the state, so that calls
// which do not compute never wait for one that does.
#include <algorithm>
#include <new>
#include <optional>

#include "core/clock.h"
#include "core/error.h"
#include "pipeline/plan/plan.h"
#include "pipeline/session/engine_session.h"

namespace rl {

std::optional<EngineStep> EngineSession::outcome_now() const {
  require_awake();
  if (paused_) return EngineStep::kPaused;
  return std::nullopt;
}

EngineStep EngineSession::step_in_turn(int64_t longest_wait_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto now = outcome_now()) return *now;
  }
  std::unique_lock lock(mutex_, std::defer_lock);
  std::optional<ComputeLease> lease;  // ends before the lock: who sees an idle engine may compute
  try {
    lease.emplace(model_->runtime(), "an engine step", model_->compute_sharing(), nullptr,
                  ComputeWait{longest_wait_ns, &waits_end_});
  } catch (const Error& e) {
    if (e.code == Code::kTimeout) return EngineStep::kTimedOut;
    if (e.code != Code::kCancelled) throw;
    lock.lock();
    return closed_ ? EngineStep::kIdle : EngineStep::kPaused;
  }
  lock.lock();
  if (const auto now = outcome_now()) return *now;  // it may have been paused meanwhile
  model_->prepare_compute(LoadedModel::Weights::kPublished);
  const bool more = engine_->step();
  note_use();
  tell();
  return more ? EngineStep::kComputed : EngineStep::kIdle;
}

EngineStep EngineSession::step() {
  if (thread_ != nullptr) {
    throw Error(Code::kFailedPrecondition, "the engine computes on a thread of its own")
        .with_key("engine.thread");
  }
  const std::lock_guard turn(computing_);
  return step_in_turn();
}

// One step of the engine's own thread. If something else computes, it waits until that ends, and
// holds nothing meanwhile. A failure pauses the engine, so that the host decides.
EngineThread::Next EngineSession::serve() noexcept {
  ComputeQueue& queue = model_->runtime().compute_queue();
  const uint64_t seen = queue.num_changes();
  try {
    const std::lock_guard turn(computing_);
    {
      const std::lock_guard lock(mutex_);
      if (sleeps_ != 0 || paused_ || engine_->nothing_runnable()) return EngineThread::Next::kRest;
    }
    const bool computed = step_in_turn() == EngineStep::kComputed;
    return computed ? EngineThread::Next::kStep : EngineThread::Next::kRest;
  } catch (const Error& e) {
    if (e.code == Code::kBusy) {
      queue.await_change(seen);
      return EngineThread::Next::kStep;
    }
    fail_thread(e.message.c_str());
  } catch (const std::bad_alloc&) {
    fail_thread("out of memory");
  } catch (const std::exception& e) {
    fail_thread(e.what());
  }
  return EngineThread::Next::kRest;
}

void EngineSession::fail_thread(const char* why) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    paused_ = true;
    model_->runtime().logger().log(LogLevel::kError, "engine", {}, "a step failed: ", why);
    events_.failed(why);
  } catch (const std::exception&) {
    return;  // the pause tells that much
  }
}

EngineStep EngineSession::await_thread(int64_t timeout_ns) {
  const int64_t start_ns = real_clock().now_ns();
  for (;;) {
    const uint64_t seen = thread_->rests();
    {
      const std::lock_guard lock(mutex_);
      require_awake();
      if (engine_->nothing_runnable()) return EngineStep::kIdle;
      if (paused_) return EngineStep::kPaused;
    }
    int64_t left_ns = timeout_ns;
    if (timeout_ns >= 0) {
      left_ns = std::max<int64_t>(0, timeout_ns - (real_clock().now_ns() - start_ns));
    }
    if (!thread_->wait_for_rest(seen, left_ns)) return EngineStep::kTimedOut;
  }
}

EngineStep EngineSession::run() {
  if (thread_ != nullptr) return await_thread(-1);
  for (;;) {
    const std::lock_guard turn(computing_);
    {
      const std::lock_guard lock(mutex_);
      require_awake();
      if (engine_->nothing_runnable()) return EngineStep::kIdle;
    }
    if (step_in_turn() == EngineStep::kPaused) return EngineStep::kPaused;
  }
}

// Whether nothing that has begun is left.
bool EngineSession::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  engine_->set_admitting(false);
  note_use();
  return engine_->nothing_runnable();
}

EngineStep EngineSession::drain(int64_t timeout_ns) {
  const int64_t start_ns = real_clock().now_ns();
  const auto left_ns = [&] {
    if (timeout_ns < 0) return ComputeWait::kNoLimit;
    return std::max(timeout_ns - (real_clock().now_ns() - start_ns), int64_t{0});
  };
  if (thread_ != nullptr) {
    begin_drain();
    return await_thread(timeout_ns);
  }
  for (;;) {
    if (begin_drain()) return EngineStep::kIdle;
    if (left_ns() == 0 || !computing_.try_lock_for(left_ns())) return EngineStep::kTimedOut;
    const std::lock_guard turn(computing_, std::adopt_lock);
    const EngineStep step = step_in_turn(left_ns());
    if (step == EngineStep::kPaused || step == EngineStep::kTimedOut) return step;
  }
}

void EngineSession::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
  end_waits();
  if (thread_ != nullptr) thread_->count_rest();
}

void EngineSession::end_waits() {
  waits_end_ = true;
  model_->runtime().compute_queue().note_given_up();
}

EngineSession::Use EngineSession::use_for_unpause() {
  {
    const std::lock_guard lock(mutex_);
    if (use_ != nullptr || engine_->idle()) return nullptr;
  }
  return std::make_unique<LoadedModel::UseLease>(*model_);
}

void EngineSession::unpause() {
  for (;;) {
    Use use = use_for_unpause();
    const std::lock_guard lock(mutex_);
    engine_->set_admitting(true);
    const bool needs_use = use_ == nullptr && !engine_->nothing_runnable();
    if (needs_use && use == nullptr) {  // a request has come meanwhile
      engine_->set_admitting(!draining_);
      continue;
    }
    if (needs_use) use_ = std::move(use);
    paused_ = draining_ = false;
    waits_end_ = closed_;
    if (thread_ != nullptr) thread_->notify();
    return;
  }
}

void EngineSession::require_awake() const {
  if (sleeps_ == 0) return;
  throw Error(Code::kFailedPrecondition,
              str("the engine is asleep at level ", sleeps_, "; wake it first"));
}

int EngineSession::sleep_level() const {
  const std::lock_guard lock(mutex_);
  return sleeps_;
}

void EngineSession::sleep(int level) {
  if (level < 1 || level > 2) {
    throw Error(Code::kOutOfRange, str("level is ", level, ", expected 1 or 2"))
        .with_key("level")
        .with_expected("1 or 2");
  }
  const std::lock_guard turn(computing_);  // which whatever changes sleeps_ holds
  if (level <= sleep_level()) return;
  const ComputeLease lease(model_->runtime(), "putting an engine to sleep");
  const std::lock_guard lock(mutex_);
  if (level == 2) model_->drop_packed(use_ != nullptr);
  if (sleeps_ == 0) {
    engine_->forget_kv();
    arena_.decommit();
  }
  sleeps_ = level;
  if (thread_ != nullptr) thread_->count_rest();
}

void EngineSession::wake() {
  const std::lock_guard turn(computing_);
  if (sleep_level() == 0) return;
  const ComputeLease lease(model_->runtime(), "waking an engine");
  const std::lock_guard lock(mutex_);
  with_knobs(model_->plan(), [&] {
    if (sleeps_ == 2) model_->prepare_compute(LoadedModel::Weights::kPublished);
    sleeps_ = 1;
    arena_.commit();
  });
  sleeps_ = 0;
  if (thread_ != nullptr) thread_->notify();
}

}  // namespace rl
