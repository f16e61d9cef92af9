// NVTX is headers only: it finds a profiler when one runs, and does nothing otherwise. The emulated
// build has functions of its own instead of this file.
#include <nvtx3/nvToolsExt.h>

#include "device/cuda/ranges.h"

namespace rl::cuda {

RangeFunctions nvtx_functions() {
  return {[](const char* name) { nvtxRangePushA(name); }, [] { nvtxRangePop(); }};
}

}  // namespace rl::cuda
