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
  DeviceId id() const override { return {DeviceId::kCuda, index_}; }
  bool has_bf16() const override { return true; }
  int64_t max_head_dim() const override { return kMaxAttentionWidth; }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override;
  // Scratch of the device and pinned memory of the host, whatever the number of threads.
  uint64_t workspace_bytes(int) const override { return options_.scratch_bytes; }
  uint64_t host_workspace_bytes(int) const override { return options_.staging_bytes; }
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
