// Imports and exports tensors in the layout of core/encoding/dlpack.h. Invariant: a producer's
// deleter is called exactly once, whatever happens, and never before the last reader of its memory
// is gone.
#pragma once
#include <memory>
#include <utility>

#include "core/tensor.h"

struct DLManagedTensorVersioned;

namespace rl {

// A producer's tensor, released through its deleter on destruction.
class ForeignTensor {
 public:
  explicit ForeignTensor(DLManagedTensorVersioned* managed) noexcept : managed_(managed) {}
  ~ForeignTensor();
  ForeignTensor(ForeignTensor&& o) noexcept : managed_(std::exchange(o.managed_, nullptr)) {}
  ForeignTensor& operator=(ForeignTensor&&) = delete;
  const DLManagedTensorVersioned* get() const { return managed_; }

 private:
  DLManagedTensorVersioned* managed_;
};

// What a foreign tensor is taken into.
struct ImportPlace {
  std::shared_ptr<const void> keeps;  // what the tensor keeps alive
  DeviceId device = {};               // whose memory it reads besides the host's
  std::shared_ptr<const StreamOrder> order = {};
};

// A tensor that owns `foreign`. If the major version differs, nothing else is read: kIncompatible.
// kUnsupported for what DLPack has but librl lacks: devices, element types, lanes, flags. Errors
// have the key "managed".
TensorPtr import_tensor(ForeignTensor foreign, ImportPlace place);

// The tensor for another library, which releases it through its deleter, on any thread. If
// abandoned() is true at that time, as in a forked child, nothing is freed.
DLManagedTensorVersioned* export_tensor(TensorPtr tensor, bool (*abandoned)() noexcept);

}  // namespace rl
