// rl_error: records made from exceptions, and their getters. If no record can be made (no memory,
// a forked child, a full handle table), the host gets a fixed token that encodes the status
// itself, so the status is the same with and without an rl_error.
#include <new>

#include "abi/guard.h"

namespace rl::abi {
namespace {

// A fixed token is this with the status in the low bits. Generations start at 1, so the table
// never issues it.
constexpr uint64_t kFixedToken = uint64_t{static_cast<uint8_t>(Kind::kError)} << 56;
constexpr uint64_t kFixedStatusMask = 0xffff;

rl_error* fixed_error(rl_status status) {
  const uint64_t token = kFixedToken | (static_cast<uint64_t>(status) & kFixedStatusMask);
  return reinterpret_cast<rl_error*>(static_cast<uintptr_t>(token));
}

bool is_fixed(const rl_error* error) {
  return (reinterpret_cast<uintptr_t>(error) & ~kFixedStatusMask) == kFixedToken;
}

rl_status fixed_status(const rl_error* error) {
  return static_cast<rl_status>(reinterpret_cast<uintptr_t>(error) & kFixedStatusMask);
}

std::string summarise(const Error& error) {
  std::string out = str(code_name(error.code), ": ", error.message);
  if (!error.key.empty()) out += str(" [key: ", error.key, "]");
  if (!error.other_key.empty()) out += str(" [other key: ", error.other_key, "]");
  if (!error.expected.empty()) out += str(" [expected: ", error.expected, "]");
  if (!error.location.empty()) out += str(" [at: ", error.location, "]");
  if (error.system_code != 0) out += str(" [system code: ", error.system_code, "]");
  for (size_t i = 0; i < error.nearest.size(); ++i) {
    out += str(i == 0 ? " [near: " : ", ", error.nearest[i]);
  }
  if (!error.nearest.empty()) out += "]";
  if (error.cause != nullptr) out += str("; caused by ", summarise(*error.cause));
  return out;
}

rl_error* make_record(const Error& error) {
  const auto* memory = dynamic_cast<const MemoryError*>(&error);
  return issue<rl_error>(std::make_shared<const ErrorRecord>(ErrorRecord{
      error, summarise(error), memory != nullptr ? memory->knobs : std::vector<Knob>{}}));
}

// If memory runs out, the caller sees an error without this detail.
rl_error* record_or_null(const Error& error) noexcept {
  try {
    return make_record(error);
  } catch (...) {
    return nullptr;
  }
}

rl_status deliver(rl_error** err, const Error& error) noexcept {
  const auto status = static_cast<rl_status>(error.code);
  if (err == nullptr || status < RL_INVALID_ARGUMENT) return status;
  try {
    *err = make_record(error);
  } catch (...) {
    *err = fixed_error(status);
  }
  return status;
}

rl_status deliver_out_of_memory(rl_error** err) noexcept {
  if (err != nullptr) *err = fixed_error(RL_OUT_OF_MEMORY);
  return RL_OUT_OF_MEMORY;
}

rl_status report_known(rl_error** err, const void* handle) {
  try {
    throw;
  } catch (const Error& error) {
    if (error.code == Code::kInternal || error.code == Code::kDeviceLost) {
      poison_handle(handle, error.message.c_str(), error.code);
    }
    return deliver(err, error);
  } catch (const std::bad_alloc&) {
    return deliver_out_of_memory(err);
  } catch (const std::exception& error) {
    poison_handle(handle, error.what());
    return deliver(err, Error(Code::kInternal, str("unexpected exception: ", error.what())));
  } catch (...) {
    poison_handle(handle, "unexpected exception");
    return deliver(err, Error(Code::kInternal, "unexpected exception of unknown type"));
  }
}

const char* choose(const std::string& text, size_t* len) {
  if (len != nullptr) *len = text.size();
  return text.c_str();
}

const char* choose(const char* text, size_t* len) {
  if (len != nullptr) *len = std::char_traits<char>::length(text);
  return text;
}

const char* fixed_text(rl_status status, int32_t field, size_t* len) {
  const bool summary = field == RL_ERROR_SUMMARY;
  if (!summary && field != RL_ERROR_MESSAGE) return choose("", len);
  if (status == RL_OUT_OF_MEMORY) {
    return choose(
        summary ? "RL_OUT_OF_MEMORY: the system is out of memory" : "the system is out of memory",
        len);
  }
  if (status == RL_FORKED) {
    return choose(summary ? "RL_FORKED: this process is a child of the one that uses librl"
                          : "this process is a child of the one that uses librl",
                  len);
  }
  return choose("no memory was left for the details of this error", len);
}

}  // namespace

rl_status report_exception(rl_error** err, const void* handle) noexcept {
  try {
    return report_known(err, handle);
  } catch (...) {
    return deliver_out_of_memory(err);
  }
}

}  // namespace rl::abi

using namespace rl::abi;

extern "C" {

rl_status rl_error_code(const rl_error* error) {
  if (error == nullptr) return RL_OK;
  if (is_fixed(error)) return fixed_status(error);
  const auto record = use_if_live(error);
  return record != nullptr ? static_cast<rl_status>(record->error.code) : RL_STALE_HANDLE;
}

const char* rl_error_text(const rl_error* error, int32_t field, size_t* len) {
  if (is_fixed(error)) return fixed_text(fixed_status(error), field, len);
  const auto record = use_if_live(error);
  if (record == nullptr) return choose("", len);
  switch (field) {
    case RL_ERROR_MESSAGE:
      return choose(record->error.message, len);
    case RL_ERROR_KEY:
      return choose(record->error.key, len);
    case RL_ERROR_EXPECTED:
      return choose(record->error.expected, len);
    case RL_ERROR_LOCATION:
      return choose(record->error.location, len);
    case RL_ERROR_SUMMARY:
      return choose(record->summary, len);
    case RL_ERROR_OTHER_KEY:
      return choose(record->error.other_key, len);
    default:
      return choose("", len);
  }
}

const char* rl_error_nearest(const rl_error* error, size_t index) {
  const auto record = use_if_live(error);
  if (record == nullptr || index >= record->error.nearest.size()) return nullptr;
  return record->error.nearest[index].c_str();
}

int32_t rl_error_system_code(const rl_error* error) {
  const auto record = use_if_live(error);
  return record != nullptr ? record->error.system_code : 0;
}

rl_error* rl_error_cause(const rl_error* error) {
  const auto record = use_if_live(error);
  if (record == nullptr || record->error.cause == nullptr) return nullptr;
  return record_or_null(*record->error.cause);
}

rl_error* rl_error_part(const rl_error* error, size_t index) {
  const auto record = use_if_live(error);
  if (record == nullptr || index >= record->error.parts.size()) return nullptr;
  return record_or_null(record->error.parts[index]);
}

void rl_error_release(rl_error* error) { drop(error); }

}  // extern "C"
