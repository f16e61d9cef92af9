// Tensors in the memory of a device that the host cannot touch: a runtime's own, and those that a
// host hands to it. Invariant: streams are ordered by the device, and whoever names none waits.
#pragma once
#include <memory>
#include <span>

#include "core/tensor.h"
#include "pipeline/session/runtime.h"

namespace rl {

// Where the tensors of a runtime's weights are: its device, if that has memory of its own, or else
// the host's memory, which is DeviceId().
DeviceId home_of(Runtime& runtime);

// Of tensors of the runtime's device.
std::shared_ptr<const StreamOrder> order_of(std::shared_ptr<Runtime> runtime);

// The values of memory of the runtime's device that begins at `data`, described as far as type,
// shape and owner: in place, or as a copy in memory of its own, which is complete.
TensorPtr device_tensor(const std::shared_ptr<Runtime>& runtime, Tensor::Description values);
TensorPtr copy_on_device(const std::shared_ptr<Runtime>& runtime, const Tensor& values);

// Before a tensor of the device that a host hands over is read: its bytes are memory of the device,
// or kInvalidArgument, and what reads them runs behind the stream, which may be null.
void receive(Runtime& runtime, const Tensor& tensor, void* producer_stream);

// The tensor, or a copy in the host's memory of one on the runtime's device, in row-major order;
// memory: where the copy comes from, null: the heap.
TensorPtr in_host(Compute& compute, const TensorPtr& tensor,
                  std::shared_ptr<MemorySource> memory = nullptr);

}  // namespace rl
