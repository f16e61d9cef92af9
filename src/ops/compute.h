// What a device computes with: its ops, its compute dtype, its threads and its matrix products.
// Models, engine and trainer pass whole batches to the ops below and know nothing else of the
// device. Invariant: a Compute has every op; a device that lacks one is refused when its Compute is
// made, never in the middle of a step.
//
// One caller at a time; ops do not call each other through the table. copy_bytes() alone may be
// called from several threads and beside another op, for bytes that nobody writes meanwhile.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/executor.h"
#include "ops/device.h"
#include "ops/op_table.h"

namespace rl {

class DeviceMessages;  // comm/device_messages.h

// What every device says of itself.
struct ComputeTraits {
  const Device& device;
  Dtype dtype;          // of matrix products: the compute dtype
  int num_threads;      // that an op may use at once: workspaces have a part for each
  ArenaLedger* ledger;  // of the arenas of the device and of what is built on it; null: not counted
};

class Compute {
 public:
  virtual ~Compute() = default;
  Compute(const Compute&) = delete;

  const OpTable& ops() const { return ops_; }
  const Device& device() const { return traits_.device; }
  Dtype dtype() const { return traits_.dtype; }
  int num_threads() const { return traits_.num_threads; }
  ArenaLedger* ledger() const { return traits_.ledger; }
  // Where arenas that ops read and write are reserved. The host touches their bytes only if the
  // device has no memory of its own (ops/device_floats.h).
  ArenaPlace memory() const { return {traits_.ledger, traits_.device.memory()}; }
  bool has_own_memory() const { return traits_.device.has_own_memory(); }
  MemorySpace space() const { return has_own_memory() ? MemorySpace::kDevice : MemorySpace::kHost; }
  // Whether a row's bits are independent of its neighbours (contract N1), as a self-check measured.
  virtual bool exact() const = 0;
  // The matrix product's kernel, for build info and errors.
  virtual const std::string& implementation() const = 0;

  // The order of ops and of a host's stream, where the device has streams: ops that are called
  // later run behind what the stream has now, or what it gets later behind the ops so far.
  // Error(kUnsupported) if the device has none, kInvalidArgument if it lacks this one. Any thread.
  virtual void follow(void* stream);
  virtual void lead(void* stream);
  // Returns when the ops so far are complete. Any thread.
  virtual void complete() {}
  // Whether the bytes are memory of the device, if it has memory of its own. Any thread.
  virtual bool has_bytes(const void*, uint64_t) { return false; }
  // Messages from this device to others of its kind, for one group of ranks, which ends before the
  // Compute does. Error(kUnsupported) if the device has none, kNotInBuild if what they need is not
  // installed.
  virtual std::shared_ptr<DeviceMessages> make_messages();

 protected:
  Compute(const OpTable& ops, const ComputeTraits& traits);

 private:
  const OpTable& ops_;
  const ComputeTraits traits_;
};

// cpu_device().make_compute().
std::unique_ptr<Compute> make_cpu_compute(Executor& executor, Dtype dtype,
                                          ArenaLedger* ledger = nullptr);
// Bytes of the scratch that it holds for so many threads; part of the memory plan.
uint64_t cpu_workspace_bytes(int num_threads);
// Whether the processor has bf16 dot products that the matrix products may use, so that bf16
// compute is worth choosing.
bool cpu_has_bf16_dot();

#define RL_OP_CALL(name, Args) \
  inline void name(Compute& compute, const Args& args) { compute.ops().name(compute, args); }
RL_OPS(RL_OP_CALL)
#undef RL_OP_CALL

}  // namespace rl
