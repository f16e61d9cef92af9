// Where a call comes from; see callbacks.h. Per thread: other threads may call while one logs.
#include "abi/callbacks.h"

#include "abi/handles.h"
#include "core/error.h"

namespace rl::abi {
namespace {
thread_local bool in_log_callback = false;
}  // namespace

LogCallbackScope::LogCallbackScope() noexcept { in_log_callback = true; }
LogCallbackScope::~LogCallbackScope() { in_log_callback = false; }
bool inside_log_callback() noexcept { return in_log_callback; }

void refuse_in_child() {
  if (!handles_forked()) return;
  throw Error(Code::kForked, "this process is a child of the one that uses librl");
}

void refuse_in_log_callback() {
  if (!inside_log_callback()) return;
  throw Error(Code::kWrongThread,
              "inside the log callback only functions marked callback-safe may be called");
}

}  // namespace rl::abi
