// The table is filled at the first call that needs it. An attempt that failed is made again.
#include "device/cuda/driver_library.h"

namespace rl::cuda {
namespace {

template <typename Function>
void find(const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(driver_symbol(name));
  if (out == nullptr) {
    throw Error(
        Code::kUnsupported,
        str("cuda: unavailable, because the driver of this machine has no function ", name));
  }
}

DriverFunctions found() {
  DriverFunctions functions;
#define RL_DRIVER_FIND(name) find("cu" #name, functions.name);
  RL_DRIVER_FUNCTIONS(RL_DRIVER_FIND)
#undef RL_DRIVER_FIND
  return functions;
}

}  // namespace

const DriverFunctions& driver() {
  static const DriverFunctions functions = found();
  return functions;
}

}  // namespace rl::cuda
