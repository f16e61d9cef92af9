// The gradients that a trainer holds, as a host reads and writes them: in place, or, if the device
// has memory of its own or they are in bf16, a copy in the host's memory. Invariant: what the host
// wrote into the copy is in the gradients when they are applied, so a host has them in one memory
// alone.
#pragma once
#include <memory>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/tensor.h"
#include "train/trainer.h"

namespace rl {

class HostGradients {
 public:
  // memory: where a copy comes from; null: the heap.
  explicit HostGradients(std::shared_ptr<MemorySource> memory) : memory_(std::move(memory)) {}

  // Before other gradients are computed: a copy of those before is stale.
  void forget() { copied_ = lent_ = false; }
  // The same memory in every call.
  std::span<float> view(Trainer& trainer) {
    const DeviceFloats flat = trainer.held_gradients();
    if (!flat.empty() && flat.is_host_memory()) return flat.in_host();
    if (lent_) refuse("the device");
    if (copy_.data == nullptr) {
      copy_ = make_tensor(ElementType::kF32, {trainer.layout().gradient_total()}, memory_);
    }
    if (!copied_) trainer.read_gradients(floats());
    copied_ = true;
    return floats();
  }
  // Whether the host has the copy, which then is what will be applied.
  bool has_copy() const { return copied_; }
  // Before the host has them in memory of the device. kFailedPrecondition if it has the copy.
  void lend() {
    if (copied_) refuse("the host");
    lent_ = true;
  }
  // Before they are applied: writes the copy back, if there is one.
  void write_back(Trainer& trainer) {
    if (copied_) trainer.write_gradients(floats());
    copied_ = lent_ = false;
  }

 private:
  [[noreturn]] static void refuse(const char* where) {
    throw Error(Code::kFailedPrecondition,
                str("these gradients were handed out in the memory of ", where,
                    ", where they may have changed; ask for them there"))
        .with_key("request.device");
  }
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(copy_.data),
            static_cast<size_t>(copy_.tensor->num_elements())};
  }

  const std::shared_ptr<MemorySource> memory_;
  OwnedTensor copy_{};
  bool copied_ = false;  // the host has the copy
  bool lent_ = false;    // the host has the device's
};

}  // namespace rl
