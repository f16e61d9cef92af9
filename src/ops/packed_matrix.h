// Weight matrices as products read them, and the room that products need around their operands.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "ops/matmul_slices.h"

namespace rl {

// The input of a product of m rows is readable up to this many rows (the contents do not matter).
int64_t padded_rows(int64_t m);
// The operands of a weight gradient over m rows have room for this many rows; those after the m are
// zero.
int64_t padded_gradient_rows(int64_t m);

// Shape and packed size of one weight matrix, as its device plans it (Device::plan_packed); the
// bytes live in an arena of the caller.
struct PackedShape {
  int64_t k = 0;
  ColumnSlices slices;
  std::vector<uint64_t> slice_offset;  // into the packed bytes; a slice lies as one of its own does
  uint64_t bytes = 0;
  SliceCut cut = {};
};

// That of a device which packs columns of W as rows of k values, one after the other.
PackedShape shape_of_rows(const SliceRule& rule, Dtype dtype);

// A packed matrix bound to memory.
class PackedMatrix {
 public:
  // What a device keeps with a matrix besides its bytes: made at first packing.
  struct DeviceForm {
    virtual ~DeviceForm() = default;
  };

  const PackedShape& shape() const { return shape_; }
  std::byte* data() const { return data_; }  // shape().bytes; null before the first packing
  DeviceForm* device_form() const { return form_.get(); }

  // For the device that packs. A matrix is packed again into the same bytes.
  void bind(const PackedShape& shape, std::byte* data);
  void keep(std::unique_ptr<DeviceForm> form) { form_ = std::move(form); }

 private:
  PackedShape shape_;
  std::byte* data_ = nullptr;
  std::unique_ptr<DeviceForm> form_;
};

}  // namespace rl
