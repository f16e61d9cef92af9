// Slices only say where gate and up rows lie and how wide vocabulary tiles are; the bytes of a
// packed matrix are plain rows, so that any product may read any of them.
#include "ops/cuda/cuda_device.h"

#include "device/cuda/devices.h"

namespace rl::cuda {

PackedShape CudaDevice::plan_packed(const SliceRule& rule, Dtype compute) const {
  return shape_of_rows(rule, compute);
}

std::unique_ptr<Compute> CudaDevice::make_compute(Executor& executor, Dtype dtype,
                                                  ArenaLedger* ledger) const {
  require_device(index_);
  return std::make_unique<CudaCompute>(*this, index_, executor, dtype, options_, ledger);
}

}  // namespace rl::cuda
