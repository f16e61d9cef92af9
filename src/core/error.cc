// Names of the codes and text formatting for messages.
#include "core/error.h"

#include <charconv>
#include <cstring>

namespace rl {
namespace {

struct CodeName {
  Code code;
  const char* name;
};
constexpr CodeName kCodeNames[] = {
    {Code::kOk, "RL_OK"},
    {Code::kTimeout, "RL_TIMEOUT"},
    {Code::kDone, "RL_DONE"},
    {Code::kInterrupted, "RL_INTERRUPTED"},
    {Code::kWouldBlock, "RL_WOULD_BLOCK"},
    {Code::kIdle, "RL_IDLE"},
    {Code::kPaused, "RL_PAUSED"},
    {Code::kInvalidArgument, "RL_INVALID_ARGUMENT"},
    {Code::kOutOfRange, "RL_OUT_OF_RANGE"},
    {Code::kNotFound, "RL_NOT_FOUND"},
    {Code::kAlreadyExists, "RL_ALREADY_EXISTS"},
    {Code::kFailedPrecondition, "RL_FAILED_PRECONDITION"},
    {Code::kResourceExhausted, "RL_RESOURCE_EXHAUSTED"},
    {Code::kOutOfMemory, "RL_OUT_OF_MEMORY"},
    {Code::kUnsupported, "RL_UNSUPPORTED"},
    {Code::kBusy, "RL_BUSY"},
    {Code::kCancelled, "RL_CANCELLED"},
    {Code::kInternal, "RL_INTERNAL"},
    {Code::kDataLoss, "RL_DATA_LOSS"},
    {Code::kIo, "RL_IO"},
    {Code::kStaleHandle, "RL_STALE_HANDLE"},
    {Code::kWrongHandle, "RL_WRONG_HANDLE"},
    {Code::kWrongThread, "RL_WRONG_THREAD"},
    {Code::kIncompatible, "RL_INCOMPATIBLE"},
    {Code::kForked, "RL_FORKED"},
    {Code::kUnknownOption, "RL_UNKNOWN_OPTION"},
    {Code::kWrongType, "RL_WRONG_TYPE"},
    {Code::kNotInBuild, "RL_NOT_IN_BUILD"},
    {Code::kNotChangeable, "RL_NOT_CHANGEABLE"},
    {Code::kConflict, "RL_CONFLICT"},
    {Code::kLate, "RL_LATE"},
    {Code::kDuplicate, "RL_DUPLICATE"},
    {Code::kNonFinite, "RL_NON_FINITE"},
    {Code::kDeviceLost, "RL_DEVICE_LOST"},
    {Code::kRankLost, "RL_RANK_LOST"},
};

}  // namespace

const char* code_name(Code code) {
  for (const CodeName& known : kCodeNames) {
    if (known.code == code) return known.name;
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
