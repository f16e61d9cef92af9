// Finds the driver's functions. The emulated build has its own functions instead of this file.
#include <dlfcn.h>

#include "device/cuda/driver_library.h"

namespace rl::cuda {

// Never closed: the runtime has it open, too.
void* driver_symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace rl::cuda
