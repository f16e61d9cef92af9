// The wrappers around every call that can fail: any exception becomes a status and an owned
// rl_error, and none leaves the library. A broken invariant and the loss of a device also poison
// the handle concerned. guarded is for all functions except those marked callback-safe in rl.h.
#pragma once
#include <utility>

#include "abi/callbacks.h"
#include "abi/handles.h"
#include "core/float_mode.h"

namespace rl::abi {

// Turns the current exception into a status and, if err is not null, a record. Results (timeout,
// done, interrupted) have no record.
rl_status report_exception(rl_error** err, const void* handle) noexcept;

// Runs body, which returns nothing (RL_OK) or an rl_status; allowed inside a callback. Uses the
// library's own floating-point mode, which threads started by body inherit.
template <typename Body>
rl_status guarded_callback_safe(rl_error** err, const void* handle, Body&& body) noexcept {
  if (err != nullptr) *err = nullptr;
  const ScopedFloatMode mode;
  try {
    refuse_in_child();
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return RL_OK;
    } else {
      return body();
    }
  } catch (...) {
    return report_exception(err, handle);
  }
}

template <typename Body>
rl_status guarded(rl_error** err, const void* handle, Body&& body) noexcept {
  return guarded_callback_safe(err, handle, [&] {
    refuse_in_callback();
    return body();
  });
}

}  // namespace rl::abi
