// The library is never closed: what it started may outlive the last Compute.
#include "device/cuda/blas_library.h"

#include <string>

#include "device/cuda/cuda_calls.h"

namespace rl::cuda {
namespace {

template <typename Function>
void find(const BlasSymbols& symbols, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(symbols.find(name));
  if (out == nullptr) {
    throw Error(Code::kNotInBuild,
                str("cuda: unavailable, because ", symbols.file, " has no function ", name));
  }
}

}  // namespace

BlasLibrary::BlasLibrary(const BlasSymbols& symbols) {
#define RL_BLAS_FIND(name) find(symbols, "cublasLt" #name, functions_.name);
  RL_BLAS_FUNCTIONS(RL_BLAS_FIND)
#undef RL_BLAS_FIND
  RL_BLAS(functions_.Create(&handle_));
  name_ = str(symbols.file, " ", functions_.GetVersion());
}

BlasLibrary::~BlasLibrary() { static_cast<void>(functions_.Destroy(handle_)); }

void fail_blas(cublasStatus_t status, const char* statement, const std::string& detail) {
  // A fault of the device shows as a failed execution; CUDA's own status says which it was.
  const cudaError_t fault = cudaPeekAtLastError();
  if (is_fault(fault)) fail_call(fault, statement, detail);
  const Code code = status == CUBLAS_STATUS_ALLOC_FAILED    ? Code::kOutOfMemory
                    : status == CUBLAS_STATUS_NOT_SUPPORTED ? Code::kUnsupported
                                                            : Code::kInternal;
  throw Error(code, str("cuda: cublasLt: ", statement, detail.empty() ? "" : ", ", detail,
                        ": status ", static_cast<int>(status)))
      .with_system_code(static_cast<int32_t>(status));
}

}  // namespace rl::cuda
