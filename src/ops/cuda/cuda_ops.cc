// The table of the GPU. Each entry enters its twin: the device is current, scratch is given back at
// the end, and a fault is remembered. An op of RL_OPS without a twin fails to link. Copies take no
// scratch, since they may run beside another op.
#include "ops/cuda/cuda_ops.h"

#include <type_traits>

#include "ops/cuda/cuda_compute.h"

namespace rl {
namespace {

template <typename Args>
void enter(const char* name, void (*twin)(Compute&, const Args&), Compute& compute,
           const Args& args) {
  cuda::CudaCompute& gpu = cuda::cuda_of(compute);
  gpu.require_device();
  try {
    const cuda::DeviceScope device(gpu.device_index());
    const cuda::Range range(gpu.ranges(), name);
    if constexpr (std::is_same_v<Args, CopyBytesArgs>) {
      twin(compute, args);
    } else {
      gpu.begin_op();
      const cuda::ScratchScope scratch(gpu);
      twin(compute, args);
    }
  } catch (const Error& error) {
    if (error.code == Code::kDeviceLost) gpu.lose(error);
    throw;
  }
}

#define RL_OP_ENTER(name, Args) \
  void enter_##name(Compute& compute, const Args& args) { enter(#name, cuda::name, compute, args); }
RL_OPS(RL_OP_ENTER)
#undef RL_OP_ENTER

}  // namespace

const OpTable& cuda_ops() {
  static constexpr OpTable table = {
#define RL_OP_ENTRY(name, Args) .name = enter_##name,
      RL_OPS(RL_OP_ENTRY)
#undef RL_OP_ENTRY
  };
  return table;
}

}  // namespace rl
