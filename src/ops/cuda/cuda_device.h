// A GPU before it computes (ops/device.h). A packed matrix is W row-major as (n, k) in the compute
// dtype, rows in the order of the weight's layout.
#pragma once
#include "ops/cuda/cuda_compute.h"
#include "ops/device.h"

namespace rl::cuda {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index, const CudaOptions& options = {})
      : index_(index), options_(options) {}
  const char* name() const override { return "cuda"; }
  bool has_bf16() const override { return true; }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override;
  // Does not depend on threads: scratch of the device, and pinned memory of the host.
  uint64_t workspace_bytes(int num_threads) const override;
  // Error(kUnsupported) if there is no such device, or no code for it.
  std::unique_ptr<Compute> make_compute(Executor& executor, Dtype dtype,
                                        ArenaLedger* ledger) const override;

 private:
  const int index_;
  const CudaOptions options_;
};

}  // namespace rl::cuda
