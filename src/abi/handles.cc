// The process has one handle table. It is never destroyed, so that handles may be ended at any
// time during exit.
#include "abi/handles.h"

#include <atomic>

namespace rl::abi {
namespace {

constexpr const char* kKindNames[] = {
    "no handle type", "rl_error",    "rl_bytes",    "rl_options",      "rl_runtime", "rl_plan",
    "rl_model",       "rl_pipeline", "rl_event",    "rl_event_queue",  "rl_batch",   "rl_engine",
    "rl_buffer",      "rl_trainer",  "rl_profiler", "rl_conversation", "rl_tensor"};
constexpr size_t kNumKinds = sizeof(kKindNames) / sizeof(kKindNames[0]);
static_assert(kNumKinds == static_cast<size_t>(Kind::kTensor) + 1);
static_assert(sizeof(void*) == sizeof(uint64_t), "a handle holds a 64-bit token");

// Null until the first handle: a child forked before that has its own table.
std::atomic<const HandleTable*> made_table = nullptr;

HandleTable& table() {
  static HandleTable* const instance = [] {
    auto* const made = new HandleTable;
    made_table.store(made, std::memory_order_release);
    return made;
  }();
  return *instance;
}

uint64_t token_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

std::string describe(const Error& error, uint64_t token, Kind kind) {
  if (error.code != Code::kWrongHandle) return error.message;
  return str("an ", kind_name(static_cast<uint8_t>(token >> 56)), " was given where an ",
             kind_name(static_cast<uint8_t>(kind)), " is expected");
}

}  // namespace

const char* kind_name(uint8_t kind) { return kKindNames[kind < kNumKinds ? kind : 0]; }

bool handles_forked() noexcept {
  const HandleTable* const made = made_table.load(std::memory_order_acquire);
  return made != nullptr && made->forked();
}

uint64_t insert_handle(Kind kind, std::shared_ptr<void> payload) {
  return table().insert(static_cast<uint8_t>(kind), std::move(payload));
}

uint64_t reserve_handle(Kind kind) { return table().reserve(static_cast<uint8_t>(kind)); }

void fill_handle(uint64_t token, std::shared_ptr<void> payload) noexcept {
  table().fill(token, std::move(payload));
}

void cancel_handle(uint64_t token) noexcept { table().cancel(token); }

std::shared_ptr<void> find_handle(const void* handle, Kind kind, const char* parameter) {
  const uint64_t token = token_of(handle);
  try {
    return table().get(token, static_cast<uint8_t>(kind));
  } catch (const Error& error) {
    throw Error(error.code, str("parameter ", parameter, ": ", describe(error, token, kind)))
        .with_key(parameter)
        .with_expected(kind_name(static_cast<uint8_t>(kind)));
  }
}

std::shared_ptr<void> take_handle(const void* handle, Kind kind) noexcept {
  if (handle == nullptr) return nullptr;
  try {
    return table().remove(token_of(handle), static_cast<uint8_t>(kind));
  } catch (...) {
    return nullptr;
  }
}

void poison_handle(const void* handle, const char* message, Code code) noexcept {
  try {
    table().poison(token_of(handle), message, code);
  } catch (...) {
    // Without memory for the message the handle is not poisoned; the caller still gets its error.
  }
}

}  // namespace rl::abi
