// A thread, and not progress inside wait(): a reduction has many steps with arithmetic between
// them, and each needs its partners' bytes before the next begins. Progress at wait() would leave
// all but the first step for the end, where nothing is left to overlap with.
#include "comm/call_queue.h"

#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/signals.h"

namespace rl {
namespace {

// The exception passes to the waiting thread as a whole: this one keeps no reference to it.
void run_call(detail::CallState& state) {
  std::exception_ptr failure;
  try {
    state.call();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(state.mutex);
  state.failure = std::move(failure);
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace

StartedCall& StartedCall::operator=(StartedCall&& other) {
  end();
  state_ = std::move(other.state_);
  return *this;
}

StartedCall::~StartedCall() { end(); }

void StartedCall::wait() {
  if (const std::exception_ptr failure = end()) std::rethrow_exception(failure);
}

std::exception_ptr StartedCall::end() {
  if (state_ == nullptr) return nullptr;
  const std::shared_ptr<detail::CallState> state = std::exchange(state_, nullptr);
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->ended; });
  return std::exchange(state->failure, nullptr);
}

CallQueue::~CallQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

StartedCall CallQueue::start(std::function<void()> call) {
  const auto state = std::make_shared<detail::CallState>();
  state->call = std::move(call);
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      const ScopedSignalMask mask;
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& e) {
      throw Error(Code::kResourceExhausted,
                  str("cannot start a thread for collectives: ", e.what()))
          .with_system_code(e.code().value());
    }
  }
  calls_.push_back(state);
  changed_.notify_all();
  return StartedCall(state);
}

void CallQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return calls_.empty(); });
}

void CallQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !calls_.empty(); });
    if (calls_.empty()) return;
    const std::shared_ptr<detail::CallState> state = calls_.front();
    lock.unlock();
    run_call(*state);
    lock.lock();
    calls_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace rl
