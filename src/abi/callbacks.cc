// Where a call comes from; see callbacks.h. Per thread: other threads may call while one logs.
#include "abi/callbacks.h"

#include "abi/handles.h"
#include "core/error.h"

namespace rl::abi {
namespace {
thread_local bool in_callback = false;
}  // namespace

CallbackScope::CallbackScope() noexcept : outer_(in_callback) { in_callback = true; }
CallbackScope::~CallbackScope() { in_callback = outer_; }
bool inside_callback() noexcept { return in_callback; }

void refuse_in_child() {
  if (!handles_forked()) return;
  throw Error(Code::kForked, "this process is a child of the one that uses librl");
}

void refuse_in_callback() {
  if (!inside_callback()) return;
  throw Error(Code::kWrongThread,
              "inside a callback only functions marked callback-safe may be called");
}

}  // namespace rl::abi
