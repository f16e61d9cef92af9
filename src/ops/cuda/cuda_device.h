// A GPU before it computes (ops/device.h). A packed matrix is W row-major as (n, k) in the compute
// dtype, rows in the order of the weight's layout.
#pragma once
#include <memory>

#include "device/cuda/memory_spaces.h"
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/attention/attention_params.h"
#include "ops/device.h"

namespace rl::cuda {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index, const CudaOptions& options = {})
      : index_(index), options_(options), memory_(memory_of(Space::kDevice, index)) {}
  const char* name() const override { return "cuda"; }
  bool has_bf16() const override { return true; }
  int64_t max_head_dim() const override { return kMaxAttentionWidth; }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override;
  // Scratch of the device, whatever the number of threads. Pinned memory of the host, of
  // CudaOptions::staging_bytes, comes in addition and is in no ledger.
  uint64_t workspace_bytes(int num_threads) const override;
  MemorySource* memory() const override { return memory_.get(); }
  // Error(kUnsupported) if there is no such device, or no code for it.
  std::unique_ptr<Compute> make_compute(Executor& executor, Dtype dtype,
                                        ArenaLedger* ledger) const override;

 private:
  const int index_;
  const CudaOptions options_;
  const std::shared_ptr<MemorySource> memory_;
};

}  // namespace rl::cuda
