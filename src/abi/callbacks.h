// Which functions may be called where. A call from inside a host's callback (log, algorithm or
// service) could wait for the very thread it runs on, and in a child process the objects' threads
// do not exist: both are refused before anything is touched.
#pragma once

namespace rl::abi {

// During its lifetime this thread is inside a callback of the host.
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
