// Opens the toolkit's cublasLt. The emulated build has its own functions instead of this file.
#include <dlfcn.h>

#include <string>

#include "device/cuda/blas_library.h"

namespace rl::cuda {
namespace {

// The loader looks where it looks for any library, and finds one that the process has already.
constexpr const char* kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

}  // namespace

BlasSymbols blas_symbols() {
  std::string causes;
  for (const char* file : kFiles) {
    if (void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
      return {file, [library](const char* name) { return dlsym(library, name); }};
    }
    const char* const cause = dlerror();
    causes += str(causes.empty() ? "" : "; ", cause != nullptr ? cause : file);
  }
  throw Error(Code::kNotInBuild,
              str("cuda: unavailable, because cublasLt could not be opened: ", causes));
}

}  // namespace rl::cuda
