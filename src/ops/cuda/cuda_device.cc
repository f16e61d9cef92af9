// Slices only say where gate and up rows lie and how wide vocabulary tiles are; the bytes of a
// packed matrix are plain rows, so that any product may read any of them.
#include "ops/cuda/cuda_device.h"

#include "core/checked.h"
#include "device/cuda/devices.h"

namespace rl::cuda {

PackedShape CudaDevice::plan_packed(const SliceRule& rule, Dtype compute) const {
  PackedShape shape;
  shape.k = rule.k;
  shape.slices = cut_slices(rule);
  shape.cut = rule.cut;
  shape.bytes = (Checked<uint64_t>(rule.k) * Checked<uint64_t>(rule.n) *
                 Checked<uint64_t>(dtype_bytes(compute)))
                    .align_up(ArenaPlan::kAlignment)
                    .get();
  const uint64_t row_bytes = static_cast<uint64_t>(rule.k) * dtype_bytes(compute);
  for (int64_t slice = 0; slice < shape.slices.count(); ++slice)
    shape.slice_offset.push_back(static_cast<uint64_t>(shape.slices.first(slice)) * row_bytes);
  return shape;
}

std::unique_ptr<Compute> CudaDevice::make_compute(Executor& executor, Dtype dtype,
                                                  ArenaLedger* ledger) const {
  require_device(index_);
  return std::make_unique<CudaCompute>(*this, index_, executor, dtype, options_, ledger);
}

}  // namespace rl::cuda
