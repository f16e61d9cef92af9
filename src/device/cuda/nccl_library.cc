#include "device/cuda/nccl_library.h"

#include "device/cuda/cuda_calls.h"

namespace rl::cuda {
namespace {

template <typename Function>
void find(const NcclSymbols& symbols, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(symbols.find(name));
  if (out == nullptr) {
    throw Error(Code::kNotInBuild,
                str("nccl: unavailable, because ", symbols.file, " has no function ", name));
  }
}

Code code_of(NcclResult result) {
  switch (result) {
    case NcclResult::kSystemError:
    case NcclResult::kRemoteError:
      return Code::kIo;
    case NcclResult::kInvalidUsage:
      return Code::kFailedPrecondition;
    default:
      return Code::kInternal;
  }
}

}  // namespace

NcclFunctions find_nccl(const NcclSymbols& symbols) {
  NcclFunctions nccl;
#define RL_NCCL_FIND(Result, name, ...) find(symbols, "nccl" #name, nccl.name);
  RL_NCCL_FUNCTIONS(RL_NCCL_FIND)
#undef RL_NCCL_FIND
  int version = 0;
  RL_NCCL(nccl, nullptr, nccl.GetVersion(&version));
  if (version < kNcclVersion) {
    throw Error(Code::kNotInBuild, str("nccl: unavailable, because ", symbols.file,
                                       " is of version ", version, ", older than ", kNcclVersion));
  }
  return nccl;
}

void fail_nccl(const NcclFunctions& nccl, NcclComm* comm, NcclResult result, const char* statement,
               const std::string& detail) {
  const std::string where = str(statement, detail.empty() ? "" : ", ", detail);
  // A fault of the device shows as an unhandled error; CUDA's own status says which it was.
  const cudaError_t fault = cudaPeekAtLastError();
  if (result == NcclResult::kUnhandledCudaError && is_fault(fault))
    fail_call(fault, statement, detail);
  const char* const last = nccl.GetLastError(comm);
  const bool more = last != nullptr && *last != '\0';
  throw Error(code_of(result), str("nccl: ", where, ": ", nccl.GetErrorString(result),
                                   more ? ": " : "", more ? last : ""))
      .with_system_code(static_cast<int32_t>(result));
}

}  // namespace rl::cuda
