// Opens NCCL. The emulated build has its own functions instead of this file.
#include <dlfcn.h>

#include "device/cuda/nccl_library.h"

namespace rl::cuda {

// The loader looks where it looks for any library, and finds one that the process has already.
NcclSymbols nccl_symbols() {
  constexpr const char* kFile = "libnccl.so.2";
  if (void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL))
    return {kFile, [library](const char* name) { return dlsym(library, name); }};
  const char* const cause = dlerror();
  throw Error(Code::kNotInBuild,
              str("nccl: unavailable, because NCCL could not be opened: ",
                  cause != nullptr ? cause : kFile, "; NVIDIA's package libnccl2 has it"));
}

}  // namespace rl::cuda
