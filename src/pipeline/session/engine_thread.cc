// A notification that comes during a step is seen after it.
#include "pipeline/session/engine_thread.h"

#include <system_error>
#include <utility>

#include "core/deadline.h"
#include "core/error.h"
#include "core/signals.h"

namespace rl {

EngineThread::EngineThread(std::function<Next()> step, const CpuList& cpus)
    : step_(std::move(step)) {
  try {
    const ScopedSignalMask mask;
    thread_ = std::thread([this, &cpus] {
      cpus.bind_this_thread();
      run();
    });
  } catch (const std::system_error& e) {
    throw Error(Code::kResourceExhausted, str("cannot start a thread: ", e.what()))
        .with_system_code(e.code().value());
  }
}

void EngineThread::run() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return ending_ || notified_ != seen; });
    seen = notified_;
    Next next = Next::kStep;
    while (!ending_ && next != Next::kRest) {
      lock.unlock();
      next = step_();
      lock.lock();
    }
    ++rests_;
    rest_.notify_all();
    if (ending_) return;
  }
}

void EngineThread::notify() {
  const std::lock_guard lock(mutex_);
  ++notified_;
  work_.notify_one();
}

void EngineThread::end() {
  const std::lock_guard one(end_mutex_);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

uint64_t EngineThread::rests() const {
  const std::lock_guard lock(mutex_);
  return rests_;
}

void EngineThread::count_rest() {
  const std::lock_guard lock(mutex_);
  ++rests_;
  rest_.notify_all();
}

bool EngineThread::wait_for_rest(uint64_t seen, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  return wait_until_ready(rest_, lock, timeout_ns, [&] { return ending_ || rests_ != seen; });
}

}  // namespace rl
