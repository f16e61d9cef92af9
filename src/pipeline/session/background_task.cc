// A thread for each task: a task takes far longer than to start one.
#include "pipeline/session/background_task.h"

#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/signals.h"

namespace rl {

BackgroundTask::~BackgroundTask() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundTask::start(std::function<void()> work) {
  RL_CHECK(!thread_.joinable());
  ended_ = false;
  try {
    const ScopedSignalMask mask;
    thread_ = std::thread([this, work = std::move(work)] {
      cpus_.bind_this_thread();
      try {
        work();
      } catch (...) {
        failure_ = std::current_exception();
      }
      ended_ = true;
    });
  } catch (const std::system_error& e) {
    throw Error(Code::kResourceExhausted, str("cannot start a thread: ", e.what()))
        .with_system_code(e.code().value());
  }
}

void BackgroundTask::finish() {
  if (thread_.joinable()) thread_.join();
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BackgroundTask::finish_if_ended() {
  if (ended_) finish();
}

}  // namespace rl
