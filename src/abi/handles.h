// Handles of rl.h: the object type behind each handle type, and how to issue, use and end a
// handle. A host's pointer is the 64-bit token of core/handle_table.h; it is never dereferenced.
#pragma once
#include <cstdint>
#include <memory>

#include "abi/callbacks.h"
#include "abi/payloads.h"
#include "core/handle_table.h"
#include "rl.h"

namespace rl::abi {

enum class Kind : uint8_t {
  kError = 1,
  kBytes,
  kOptions,
  kRuntime,
  kPlan,
  kModel,
  kPipeline,
  kEvent,
  kEventQueue,
  kBatch,
  kEngine,
  kBuffer,
  kTrainer,
  kProfiler,
  kConversation,
  kTensor
};
// "rl_options"; "no handle type" for any other number.
const char* kind_name(uint8_t kind);

// Kind and payload of a handle type.
template <typename Handle>
struct HandleOf;
// clang-format off
#define RL_HANDLE(handle, kind_value, payload) \
  template <> \
  struct HandleOf<handle> { \
    static constexpr Kind kKind = Kind::kind_value; \
    using Payload = payload; \
  }
RL_HANDLE(rl_error, kError, const ErrorRecord);
RL_HANDLE(rl_bytes, kBytes, const std::string);
RL_HANDLE(rl_options, kOptions, OptionsBox);
RL_HANDLE(rl_runtime, kRuntime, Runtime);
RL_HANDLE(rl_plan, kPlan, const PlanBox);
RL_HANDLE(rl_model, kModel, LoadedModel);
RL_HANDLE(rl_pipeline, kPipeline, Pipeline);
RL_HANDLE(rl_event, kEvent, const Event);
RL_HANDLE(rl_event_queue, kEventQueue, EventQueue);
RL_HANDLE(rl_batch, kBatch, BatchBox);
RL_HANDLE(rl_engine, kEngine, EngineBox);
RL_HANDLE(rl_buffer, kBuffer, BufferSession);
RL_HANDLE(rl_trainer, kTrainer, TrainerSession);
RL_HANDLE(rl_profiler, kProfiler, ProfilerSession);
RL_HANDLE(rl_conversation, kConversation, const ConversationBox);
RL_HANDLE(rl_tensor, kTensor, const Tensor);
#undef RL_HANDLE
// clang-format on

template <typename Handle>
using PayloadPtr = std::shared_ptr<typename HandleOf<Handle>::Payload>;

// True in a child of the process that made the first handle.
bool handles_forked() noexcept;
uint64_t insert_handle(Kind kind, std::shared_ptr<void> payload);
// The same in two steps (HandleTable::reserve).
uint64_t reserve_handle(Kind kind);
void fill_handle(uint64_t token, std::shared_ptr<void> payload) noexcept;
void cancel_handle(uint64_t token) noexcept;
// Errors of HandleTable::get with the parameter's name in key and message.
std::shared_ptr<void> find_handle(const void* handle, Kind kind, const char* parameter);
// Ends the handle and returns its object. Null, without effect, if it is NULL, stale, of another
// kind, or made before fork.
std::shared_ptr<void> take_handle(const void* handle, Kind kind) noexcept;
void poison_handle(const void* handle, const char* message, Code code = Code::kInternal) noexcept;

template <typename Handle>
Handle* issue(PayloadPtr<Handle> payload) {
  using Stored = std::remove_const_t<typename HandleOf<Handle>::Payload>;
  const uint64_t token =
      insert_handle(HandleOf<Handle>::kKind, std::const_pointer_cast<Stored>(std::move(payload)));
  return reinterpret_cast<Handle*>(static_cast<uintptr_t>(token));
}

// A handle slot, reserved before its object is made, so that no object is lost for lack of a slot.
template <typename Handle>
class Reserved {
 public:
  Reserved() : token_(reserve_handle(HandleOf<Handle>::kKind)) {}
  ~Reserved() {
    if (token_ != 0) cancel_handle(token_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

  // At most once.
  Handle* fill(PayloadPtr<Handle> payload) noexcept {
    using Stored = std::remove_const_t<typename HandleOf<Handle>::Payload>;
    const uint64_t token = std::exchange(token_, 0);
    fill_handle(token, std::const_pointer_cast<Stored>(std::move(payload)));
    return reinterpret_cast<Handle*>(static_cast<uintptr_t>(token));
  }

 private:
  uint64_t token_;
};

// The object, kept alive by the result.
template <typename Handle>
PayloadPtr<Handle> use(const Handle* handle, const char* parameter) {
  return std::static_pointer_cast<typename HandleOf<Handle>::Payload>(
      find_handle(handle, HandleOf<Handle>::kKind, parameter));
}
// The same for getters without a status: null if the handle is not live.
template <typename Handle>
PayloadPtr<Handle> use_if_live(const Handle* handle) noexcept {
  try {
    return use(handle, "handle");
  } catch (...) {
    return nullptr;
  }
}

// Ends the handle; its object lives until the result and all calls that still use it are done.
template <typename Handle>
PayloadPtr<Handle> take(const Handle* handle) noexcept {
  return std::static_pointer_cast<typename HandleOf<Handle>::Payload>(
      take_handle(handle, HandleOf<Handle>::kKind));
}
// For xxx_release, which never waits.
template <typename Handle>
void drop(const Handle* handle) noexcept {
  take(handle);
}
// For xxx_destroy, which may wait for a thread: no effect inside a callback, which may be running
// on that thread.
template <typename Handle>
PayloadPtr<Handle> destroy(const Handle* handle) noexcept {
  return inside_callback() ? nullptr : take(handle);
}

}  // namespace rl::abi
