// Errors of the library. An operating failure is thrown as rl::Error and becomes an owned rl_error
// at the ABI; it carries everything a person needs: code, message, the key or tensor concerned,
// what was expected, the nearest valid names, where in the input it was found, and the system's
// code. One error may stand for several, its parts. A broken internal invariant is RL_CHECK.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rl {

// Numbers are part of the ABI (abi/errors.yml); src/abi asserts that they equal the RL_* constants
// of rl.h.
enum class Code : int32_t {
  kOk = 0,
  kTimeout = 1,
  kDone = 2,
  kInterrupted = 3,
  kWouldBlock = 4,
  kIdle = 5,
  kPaused = 6,
  kInvalidArgument = 16,
  kOutOfRange = 17,
  kNotFound = 18,
  kAlreadyExists = 19,
  kFailedPrecondition = 20,
  kResourceExhausted = 21,
  kOutOfMemory = 22,
  kUnsupported = 23,
  kBusy = 24,
  kCancelled = 25,
  kInternal = 26,
  kDataLoss = 27,
  kIo = 28,
  kStaleHandle = 29,
  kWrongHandle = 30,
  kWrongThread = 31,
  kIncompatible = 32,
  kForked = 33,
  kUnknownOption = 40,
  kWrongType = 41,
  kNotInBuild = 42,
  kNotChangeable = 43,
  kConflict = 44,
  kLate = 50,
  kDuplicate = 51,
  kNonFinite = 52,
  kDeviceLost = 60,
  kRankLost = 61,
};

// The stable text name of a code: "RL_OUT_OF_RANGE".
const char* code_name(Code code);

class Error : public std::exception {
 public:
  Error(Code code, std::string message) : code(code), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }

  // Fluent details: throw Error(...).with_key("engine.block_size").with_expected("1..1024").
  Error&& with_key(std::string v) && {
    key = std::move(v);
    return std::move(*this);
  }
  Error&& with_other_key(std::string v) && {
    other_key = std::move(v);
    return std::move(*this);
  }
  Error&& with_expected(std::string v) && {
    expected = std::move(v);
    return std::move(*this);
  }
  Error&& with_nearest(std::vector<std::string> v) && {
    nearest = std::move(v);
    return std::move(*this);
  }
  Error&& with_location(std::string v) && {
    location = std::move(v);
    return std::move(*this);
  }
  Error&& with_system_code(int32_t v) && {
    system_code = v;
    return std::move(*this);
  }
  Error&& with_cause(const Error& e) && {
    cause = std::make_shared<Error>(e);
    return std::move(*this);
  }

  Code code;
  std::string message;    // one sentence, names the thing, the limit and the value seen
  std::string key;        // option key, tensor name, parameter name; empty when none applies
  std::string other_key;  // the second option of a conflict
  std::string expected;   // type, range or choices that would have been right
  std::vector<std::string> nearest;  // up to three valid names near an unknown one
  std::string location;              // file and byte offset, line and column, or JSON pointer
  int32_t system_code = 0;           // errno or a backend's code; 0 when none
  std::shared_ptr<const Error> cause;
  std::vector<Error> parts;  // of an error that reports several at once
};

// Joins its arguments as text: str("block ", 3, " of ", n). Numbers print in full precision.
namespace detail {
void append(std::string& out, std::string_view v);
void append(std::string& out, double v);
void append(std::string& out, long long v);
void append(std::string& out, unsigned long long v);
template <typename T>
void append_any(std::string& out, const T& v) {
  if constexpr (std::is_convertible_v<T, std::string_view>)
    append(out, std::string_view(v));
  else if constexpr (std::is_floating_point_v<T>)
    append(out, static_cast<double>(v));
  else if constexpr (std::is_signed_v<T>)
    append(out, static_cast<long long>(v));
  else
    append(out, static_cast<unsigned long long>(v));
}
}  // namespace detail
template <typename... Ts>
std::string str(const Ts&... parts) {
  std::string out;
  (detail::append_any(out, parts), ...);
  return out;
}

[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace rl

// An internal invariant. A failure is a bug in librl: it throws Code::kInternal and the ABI poisons
// the handle.
#define RL_CHECK(cond)                             \
  do {                                             \
    if (!(cond)) [[unlikely]]                      \
      ::rl::fail_check(#cond, __FILE__, __LINE__); \
  } while (0)
