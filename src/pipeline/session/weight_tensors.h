// The fp32 weights of a model as tensors: lent to a host by name, and set from tensors. Names and
// shapes are those of the Hugging Face directory. Setting is all or nothing with respect to
// arguments: everything is checked before the first weight changes. If memory runs out after that,
// the model is half-trained (loaded_model.h).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

// The masters in place, read-only: their values change with every step. Keeps the model alive. If
// the device has memory of its own it is copy_weight(): tensors are memory of the host.
TensorPtr lend_weight(std::shared_ptr<const LoadedModel> model, std::string_view name);
// The current values; kBusy while they are being trained.
TensorPtr copy_weight(const LoadedModel& model, std::string_view name);
// The same two in memory of the device, if that has memory of its own.
TensorPtr device_weight(std::shared_ptr<const LoadedModel> model, std::string_view name,
                        bool copied);

struct NamedTensor {
  std::string name;
  TensorPtr values;  // fp32 or bf16, of the weight's shape
};
// Publishes the weights and returns their version: the one that the host names, which is above the
// present one, or with as_version 0 the next. Errors name the weight: kNotFound, kDuplicate,
// kWrongType, kIncompatible for a shape, kNonFinite, kConflict for values that alias the weights
// themselves. kFailedPrecondition while trained weights are not published, kBusy while they are
// being trained; with one compute copy also while anything uses the weights. With two, engines
// with requests continue under the new version from their next step. Tensors of the model's device
// are read behind producer_stream, if it is not null; those of another one are kUnsupported.
uint64_t set_weights(LoadedModel& model, std::span<const NamedTensor> weights,
                     uint64_t as_version = 0, void* producer_stream = nullptr);

}  // namespace rl
