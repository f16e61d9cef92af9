// Tensors of other libraries in and tensors of this one out, laid out by core/dlpack.h. Invariant:
// a producer's deleter is called exactly once, whatever happens, and never before the last reader
// of its memory is gone.
#pragma once
#include <memory>
#include <utility>

#include "core/tensor.h"

struct DLManagedTensorVersioned;

namespace rl {

// A producer's tensor, given back by its deleter when this ends.
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

// The tensor, which ends `foreign` with itself; `keeps` lives as long. Of another major version
// nothing else is read: kIncompatible. kUnsupported for what DLPack knows but librl does not:
// devices, element types, lanes, flags. Errors have the key "managed".
TensorPtr import_tensor(ForeignTensor foreign, std::shared_ptr<const void> keeps);

// The tensor for another library, which ends it by its deleter, on any thread. Where abandoned() is
// true then, as in a forked child, nothing is freed.
DLManagedTensorVersioned* export_tensor(TensorPtr tensor, bool (*abandoned)() noexcept);

}  // namespace rl
