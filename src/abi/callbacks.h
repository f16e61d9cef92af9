// Which functions may be called where. A call from inside a callback of the host, for the log or
// for an algorithm, could wait for the very thread it is on, and in a child process the threads of
// the objects are missing: both are refused before anything is touched.
#pragma once

namespace rl::abi {

// While it lives, this thread is inside a callback of the host.
class CallbackScope {
 public:
  CallbackScope() noexcept;
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;

 private:
  const bool outer_;
};
bool inside_callback() noexcept;

// kForked in a child of the process that made the first handle.
void refuse_in_child();
// kWrongThread inside a callback.
void refuse_in_callback();

}  // namespace rl::abi
