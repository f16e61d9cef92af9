// Values cross by copy_bytes(), which beside another op is allowed for bytes that nobody writes.
#include "pipeline/session/device_tensors.h"

#include "core/error.h"

namespace rl {
namespace {

class RuntimeOrder final : public StreamOrder {
 public:
  explicit RuntimeOrder(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  void lead(void* stream) const override {
    Compute& compute = runtime_->compute();
    stream != nullptr ? compute.lead(stream) : compute.complete();
  }

 private:
  const std::shared_ptr<Runtime> runtime_;
};

// A device's source, which lives as long as the device.
std::shared_ptr<MemorySource> source_of(const Compute& compute) {
  return {std::shared_ptr<void>(), compute.device().memory()};
}

uint64_t spanned_bytes(const Tensor& tensor) { return tensor.end() - tensor.lowest(); }

}  // namespace

DeviceId home_of(Runtime& runtime) {
  const Compute& compute = runtime.compute();
  return compute.has_own_memory() ? compute.device().id() : DeviceId();
}

std::shared_ptr<const StreamOrder> order_of(std::shared_ptr<Runtime> runtime) {
  return std::make_shared<const RuntimeOrder>(std::move(runtime));
}

TensorPtr device_tensor(const std::shared_ptr<Runtime>& runtime, Tensor::Description values) {
  values.device = home_of(*runtime);
  values.order = order_of(runtime);
  return std::make_shared<const Tensor>(std::move(values));
}

TensorPtr copy_on_device(const std::shared_ptr<Runtime>& runtime, const Tensor& values) {
  Compute& compute = runtime->compute();
  RL_CHECK(values.is_row_major());
  const OwnedTensor copy = make_tensor(values.type(), values.shape(), source_of(compute));
  copy_bytes(compute, {values.data(), copy.data, values.num_bytes()});
  compute.complete();
  return device_tensor(
      runtime,
      {.data = copy.data, .type = values.type(), .shape = values.shape(), .owner = copy.tensor});
}

void receive(Runtime& runtime, const Tensor& tensor, void* producer_stream) {
  Compute& compute = runtime.compute();
  const DeviceId device = home_of(runtime);
  const auto* const lowest = reinterpret_cast<const void*>(tensor.lowest());
  if (tensor.num_elements() != 0 && !compute.has_bytes(lowest, spanned_bytes(tensor))) {
    throw Error(Code::kInvalidArgument, str("parameter managed: data is not memory of device (",
                                            device.kind, ", ", device.index, ")"))
        .with_key("managed");
  }
  if (!tensor.is_row_major()) {
    throw Error(
        Code::kUnsupported,
        "parameter managed: the strides are not those of row-major order, which a tensor of a "
        "device must have")
        .with_key("managed");
  }
  // Kernels read whole elements.
  if (tensor.lowest() % element_bytes(tensor.type()) != 0) {
    throw Error(Code::kUnsupported, str("parameter managed: the address of data is no multiple of ",
                                        element_bytes(tensor.type()),
                                        ", the size of an element, which that of a "
                                        "device's tensor must be"))
        .with_key("managed");
  }
  if (producer_stream != nullptr) compute.follow(producer_stream);
}

TensorPtr in_host(Compute& compute, const TensorPtr& tensor, std::shared_ptr<MemorySource> memory) {
  if (tensor->in_host()) return tensor;
  const OwnedTensor copy = make_tensor(tensor->type(), tensor->shape(), std::move(memory));
  copy_bytes(compute, {tensor->data(), copy.data, tensor->num_bytes()});
  return copy.tensor;
}

}  // namespace rl
