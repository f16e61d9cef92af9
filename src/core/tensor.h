// Arrays with a shape that cross the ABI: weights, log-probs and hidden states on their way out, a
// host's arrays on their way in. A Tensor describes memory and keeps its owner alive; it never
// changes, though its values may. Invariants: the number of elements fits int64_t, every element
// lies between lowest() and end(). Alignment is not assumed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/device_id.h"
#include "core/function_ref.h"

namespace rl {

class MemorySource;

// Numbers are part of the ABI.
enum class ElementType : int32_t { kF32 = 0, kBf16 = 1, kI32 = 2 };
constexpr size_t element_bytes(ElementType type) { return type == ElementType::kBf16 ? 2 : 4; }

constexpr size_t kMaxDimensions = 64;

// Orders a host's work behind what writes the values of a tensor of a device.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;
  // Work that the stream gets later runs behind it; null: returns when the values are there.
  virtual void lead(void* stream) const = 0;
};

class Tensor {
 public:
  struct Description {
    const void* data = nullptr;  // may be null without elements
    ElementType type = ElementType::kF32;
    std::vector<int64_t> shape = {};
    std::vector<int64_t> strides = {};  // in elements, any sign; empty: row-major
    bool read_only = false;
    std::shared_ptr<const void> owner = {};         // of the memory
    DeviceId device = {};                           // whose memory it is
    std::shared_ptr<const StreamOrder> order = {};  // null for the host's
  };
  // Errors name the field as "shape", "strides" or "data": kOutOfRange for extents below 0, sizes
  // that overflow, and elements outside the address space.
  explicit Tensor(Description description);

  const void* data() const { return d_.data; }  // the element with all indices 0
  ElementType type() const { return d_.type; }
  const std::vector<int64_t>& shape() const { return d_.shape; }
  const std::vector<int64_t>& strides() const { return d_.strides; }
  bool read_only() const { return d_.read_only; }
  DeviceId device() const { return d_.device; }
  bool in_host() const { return d_.device == DeviceId(); }
  const StreamOrder* order() const { return d_.order.get(); }  // null for the host's
  int64_t num_elements() const { return num_elements_; }
  size_t num_bytes() const { return static_cast<size_t>(num_elements_) * element_bytes(d_.type); }
  bool is_row_major() const { return row_major_; }
  // First byte of any element, and the byte after the last; equal without elements.
  uintptr_t lowest() const { return lowest_; }
  uintptr_t end() const { return end_; }

 private:
  void set_range();

  Description d_;
  int64_t num_elements_;
  bool row_major_ = true;
  uintptr_t lowest_ = 0, end_ = 0;
};
using TensorPtr = std::shared_ptr<const Tensor>;

// Newly allocated row-major memory, 64-byte aligned and uninitialised.
struct OwnedTensor {
  TensorPtr tensor;
  std::byte* data;
};
// memory: where it comes from, which lives as long as the tensor; null: operator new.
OwnedTensor make_tensor(ElementType type, std::vector<int64_t> shape,
                        std::shared_ptr<MemorySource> memory = nullptr);

// Visits the elements in row-major order, in runs whose elements are `stride` bytes apart.
struct ElementRun {
  const std::byte* data;
  int64_t count;
  int64_t stride;
};
void for_each_run(const Tensor& tensor, FunctionRef<void(const ElementRun& run)> visit);

// A copy that owns its memory, from where make_tensor takes it.
TensorPtr copy_of(const Tensor& tensor, std::shared_ptr<MemorySource> memory = nullptr);

}  // namespace rl
