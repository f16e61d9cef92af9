// Messages between GPUs by NCCL (comm/device_messages.h): grouped sends and receives in a stream of
// their own, and the sums of what came (ops/cuda/kernels/rows/rank_order_kernels.h).
//
// Invariant: no call waits for NCCL or the GPU without asking whether the other ranks are still
// there. The communicator is never taken down with the others, which may be gone: it is aborted,
// when nothing is under way or nothing else helps.
#pragma once
#include <memory>

#include "comm/device_messages.h"

namespace rl {

class Compute;

namespace cuda {

// Of one group. `compute` is a CudaCompute and outlives them. Error(kNotInBuild) if NCCL is not
// installed.
std::shared_ptr<DeviceMessages> nccl_messages(
    Compute& compute, uint64_t scratch_bytes = DeviceMessages::kScratchBytes);

}  // namespace cuda

}  // namespace rl
