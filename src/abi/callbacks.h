// Which functions may be called where. A call from inside the log callback could wait for the very
// thread it is on, and in a child process the threads of the objects are missing: both are refused
// before anything is touched.
#pragma once

namespace rl::abi {

// While it lives, this thread is inside a host's log callback.
class LogCallbackScope {
 public:
  LogCallbackScope() noexcept;
  ~LogCallbackScope();
  LogCallbackScope(const LogCallbackScope&) = delete;
};
bool inside_log_callback() noexcept;

// kForked in a child of the process that made the first handle.
void refuse_in_child();
// kWrongThread inside the log callback.
void refuse_in_log_callback();

}  // namespace rl::abi
