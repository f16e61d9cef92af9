// A device before it computes: the sizes that the memory plan needs, and how its Compute is made.
// Invariant: what a Compute reserves is what its Device said. Stateless; callable from any thread.
#pragma once
#include <cstdint>
#include <memory>

#include "core/device_id.h"
#include "core/dtype.h"
#include "ops/attention.h"
#include "ops/packed_matrix.h"

namespace rl {

class ArenaLedger;
class Compute;
class Executor;
class MemorySource;

// The arena of a device with memory of its own through which copies to and from the host pass.
inline constexpr const char* kCopyStaging = "copy staging, host";

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;
  virtual DeviceId id() const { return {}; }
  // Whether it multiplies bf16; then that is the compute dtype unless model.dtype names another.
  virtual bool has_bf16() const = 0;
  // Components of the largest head that it computes.
  virtual int64_t max_head_dim() const { return kMaxHeadDim; }
  // The packed shape of a [k -> n] product, split as cut_slices() says. Throws
  // Error(kResourceExhausted) if the device cannot compute such a product within its workspace.
  virtual PackedShape plan_packed(const SliceRule& rule, Dtype compute) const = 0;
  // Tokens of a vocabulary that the head's backward computes at a time; 0: all. Few need less
  // memory for packed weights and for gradients of logits, and these stay in a cache.
  virtual int64_t vocabulary_part() const { return 0; }
  // Bytes that a Compute reserves for so many threads.
  virtual uint64_t workspace_bytes(int num_threads) const = 0;
  // Bytes of the host's memory that it reserves beside, as the arena kCopyStaging, if the device
  // has memory of its own.
  virtual uint64_t host_workspace_bytes(int /*num_threads*/) const { return 0; }
  // Where arenas that its ops read and write get their bytes, if it has memory of its own, which
  // the host cannot touch; null: it computes in the host's memory.
  virtual MemorySource* memory() const { return nullptr; }
  bool has_own_memory() const { return memory() != nullptr; }
  // The executor and the ledger (null: not counted) outlive the Compute.
  virtual std::unique_ptr<Compute> make_compute(Executor& executor, Dtype dtype,
                                                ArenaLedger* ledger) const = 0;
};

// Lives as long as the library.
const Device& cpu_device();

}  // namespace rl
