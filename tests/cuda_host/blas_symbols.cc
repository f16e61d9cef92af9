// The functions of the cuBLASLt stand-in by name, in place of src/device/cuda/blas_open.cc.
#include <map>
#include <string>

#include "device/cuda/blas_library.h"

namespace rl::cuda {

BlasSymbols blas_symbols() {
  static const std::map<std::string, void*> functions = {
#define RL_EMULATED_BLAS(name) {"cublasLt" #name, reinterpret_cast<void*>(&cublasLt##name)},
      RL_BLAS_FUNCTIONS(RL_EMULATED_BLAS)
#undef RL_EMULATED_BLAS
  };
  return {"emulated cublasLt", [](const char* name) -> void* {
            const auto found = functions.find(name);
            return found == functions.end() ? nullptr : found->second;
          }};
}

}  // namespace rl::cuda
