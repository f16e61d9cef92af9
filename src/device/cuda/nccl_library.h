// NCCL, opened by its versioned name when ranks want it, so that nothing links to it and no build
// needs its header: the part of its interface that is used is declared here. It has not changed
// since version 2.14, and tests/cuda_host compares it with nccl.h where there is one. Every call
// goes through a pointer of the table and RL_NCCL(), which checks its result.
#pragma once
#include <cuda_runtime_api.h>

#include <climits>
#include <cstddef>
#include <functional>
#include <string>

#include "core/error.h"

namespace rl::cuda {

struct NcclComm;  // NCCL's, of one rank in one group
struct NcclId {
  char bytes[128];
};
enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum class NcclType : int { kUint8 = 1, kFloat32 = 7, kBfloat16 = 9 };
enum class NcclReduction : int { kSum = 0 };
constexpr int kNcclVersion = 21400;  // the lowest that has what is declared here
// What version 2.14 knows of ncclConfig_t; later ones add to its end, and read no more than `size`.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kNcclVersion;
  int blocking = 0;  // calls return at once, and CommGetAsyncError() says when they are done
  int undefined = INT_MIN;
};

#define RL_NCCL_FUNCTIONS(OP)                                                                 \
  OP(NcclResult, GetVersion, int*)                                                            \
  OP(NcclResult, GetUniqueId, NcclId*)                                                        \
  OP(NcclResult, CommInitRankConfig, NcclComm**, int, NcclId, int, NcclConfig*)               \
  OP(NcclResult, CommAbort, NcclComm*)                                                        \
  OP(NcclResult, CommGetAsyncError, NcclComm*, NcclResult*)                                   \
  OP(NcclResult, GroupStart)                                                                  \
  OP(NcclResult, GroupEnd)                                                                    \
  OP(NcclResult, Send, const void*, size_t, NcclType, int, NcclComm*, cudaStream_t)           \
  OP(NcclResult, Recv, void*, size_t, NcclType, int, NcclComm*, cudaStream_t)                 \
  OP(NcclResult, Reduce, const void*, void*, size_t, NcclType, NcclReduction, int, NcclComm*, \
     cudaStream_t)                                                                            \
  OP(NcclResult, AllReduce, const void*, void*, size_t, NcclType, NcclReduction, NcclComm*,   \
     cudaStream_t)                                                                            \
  OP(const char*, GetErrorString, NcclResult)                                                 \
  OP(const char*, GetLastError, NcclComm*)

struct NcclFunctions {
#define RL_NCCL_ENTRY(Result, name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  RL_NCCL_FUNCTIONS(RL_NCCL_ENTRY)
#undef RL_NCCL_ENTRY
};

// Where the functions come from.
struct NcclSymbols {
  std::string file;
  std::function<void*(const char* name)> find;  // null: there is no such function
};
// Error(kNotInBuild) that names the file, and the package to install, if there is none. The
// emulated build has its own in place of nccl_open.cc.
NcclSymbols nccl_symbols();

// Error(kNotInBuild) if a function is absent, or the library is older than kNcclVersion.
NcclFunctions find_nccl(const NcclSymbols& symbols);

[[noreturn]] void fail_nccl(const NcclFunctions& nccl, NcclComm* comm, NcclResult result,
                            const char* statement, const std::string& detail);

}  // namespace rl::cuda

// As RL_CUDA of cuda_calls.h, for the communicator `comm`, which may be null. A call that is in
// progress has not failed.
#define RL_NCCL(nccl, comm, statement, ...)                                                  \
  do {                                                                                       \
    const ::rl::cuda::NcclResult rl_nccl_result = (statement);                               \
    if (rl_nccl_result != ::rl::cuda::NcclResult::kSuccess &&                                \
        rl_nccl_result != ::rl::cuda::NcclResult::kInProgress) [[unlikely]]                  \
      ::rl::cuda::fail_nccl(nccl, comm, rl_nccl_result, #statement, ::rl::str(__VA_ARGS__)); \
  } while (0)
