// Calls that run one after another on a thread of their own, in the order of their start, while
// the thread that started them computes. comm/group.h makes overlapped collectives of it.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace rl {

namespace detail {
struct CallState {
  std::function<void()> call;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool ended = false;
  std::exception_ptr failure;
};
}  // namespace detail

// A call that was started. Used by one thread. What it reads and writes stays untouched until
// wait() has returned or the object has ended.
class StartedCall {
 public:
  StartedCall() = default;
  explicit StartedCall(std::shared_ptr<detail::CallState> state) : state_(std::move(state)) {}
  StartedCall(StartedCall&&) = default;
  StartedCall& operator=(StartedCall&& other);
  // Waits for the end of the call. Its error is dropped.
  ~StartedCall();

  // Returns when the call is done, or throws what ended it, once. Afterwards, and for an object
  // that has no call, it returns at once.
  void wait();

 private:
  // What the call threw.
  std::exception_ptr end();

  std::shared_ptr<detail::CallState> state_;
};

class CallQueue {
 public:
  CallQueue() = default;
  // Waits for all calls.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  // Error(kResourceExhausted) if the system has no thread for the first call.
  StartedCall start(std::function<void()> call);
  // Returns when every call that was started has ended.
  void drain();

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<detail::CallState>> calls_;  // the first runs
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace rl
