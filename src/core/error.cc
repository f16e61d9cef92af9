// Names of the codes and text formatting for messages.
#include "core/error.h"

#include <charconv>
#include <cstring>

namespace rl {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "RL_OK";
    case Code::kTimeout:
      return "RL_TIMEOUT";
    case Code::kDone:
      return "RL_DONE";
    case Code::kInterrupted:
      return "RL_INTERRUPTED";
    case Code::kWouldBlock:
      return "RL_WOULD_BLOCK";
    case Code::kIdle:
      return "RL_IDLE";
    case Code::kPaused:
      return "RL_PAUSED";
    case Code::kInvalidArgument:
      return "RL_INVALID_ARGUMENT";
    case Code::kOutOfRange:
      return "RL_OUT_OF_RANGE";
    case Code::kNotFound:
      return "RL_NOT_FOUND";
    case Code::kAlreadyExists:
      return "RL_ALREADY_EXISTS";
    case Code::kFailedPrecondition:
      return "RL_FAILED_PRECONDITION";
    case Code::kResourceExhausted:
      return "RL_RESOURCE_EXHAUSTED";
    case Code::kOutOfMemory:
      return "RL_OUT_OF_MEMORY";
    case Code::kUnsupported:
      return "RL_UNSUPPORTED";
    case Code::kBusy:
      return "RL_BUSY";
    case Code::kCancelled:
      return "RL_CANCELLED";
    case Code::kInternal:
      return "RL_INTERNAL";
    case Code::kDataLoss:
      return "RL_DATA_LOSS";
    case Code::kIo:
      return "RL_IO";
    case Code::kStaleHandle:
      return "RL_STALE_HANDLE";
    case Code::kWrongHandle:
      return "RL_WRONG_HANDLE";
    case Code::kWrongThread:
      return "RL_WRONG_THREAD";
    case Code::kIncompatible:
      return "RL_INCOMPATIBLE";
    case Code::kForked:
      return "RL_FORKED";
    case Code::kUnknownOption:
      return "RL_UNKNOWN_OPTION";
    case Code::kWrongType:
      return "RL_WRONG_TYPE";
    case Code::kNotInBuild:
      return "RL_NOT_IN_BUILD";
    case Code::kNotChangeable:
      return "RL_NOT_CHANGEABLE";
    case Code::kConflict:
      return "RL_CONFLICT";
    case Code::kLate:
      return "RL_LATE";
    case Code::kDuplicate:
      return "RL_DUPLICATE";
    case Code::kNonFinite:
      return "RL_NON_FINITE";
    case Code::kDeviceLost:
      return "RL_DEVICE_LOST";
  }
  return "RL_UNKNOWN_CODE";
}

namespace detail {
namespace {
template <typename T>
void append_number(std::string& out, T v) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  out.append(buffer, end);
}
}  // namespace
void append(std::string& out, std::string_view v) { out.append(v); }
void append(std::string& out, double v) { append_number(out, v); }
void append(std::string& out, long long v) { append_number(out, v); }
void append(std::string& out, unsigned long long v) { append_number(out, v); }
}  // namespace detail

void fail_check(const char* condition, const char* file, int line) {
  throw Error(Code::kInternal,
              str("internal invariant broken: ", condition, " at ", file, ":", line));
}

}  // namespace rl
