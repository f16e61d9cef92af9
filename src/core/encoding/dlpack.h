// The memory layout of DLPack 1.x, which lets libraries exchange tensors without a copy. Declares
// only what librl reads or writes. What is shared is layout, not code: the assertions below are the
// contract, and rl.h declares the outermost struct by its tag alone.
// core/encoding/tensor_exchange.h converts.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rl::dlpack {

// Producers of the same major version differ at most in flags and codes.
constexpr uint32_t kMajor = 1;
constexpr uint32_t kMinor = 0;  // what librl writes needs nothing newer

enum Code : uint8_t { kInt = 0, kFloat = 2, kBfloat = 4 };

constexpr uint64_t kReadOnly = 1;
constexpr uint64_t kIsCopied = 2;  // the producer allocated the memory for this tensor alone

struct Version {
  uint32_t major, minor;
};

struct Device {
  int32_t device_type, device_id;  // as in core/device_id.h
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct View {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

}  // namespace rl::dlpack

// A tensor with its owner. The fields before flags are the same in every major version.
struct DLManagedTensorVersioned {
  rl::dlpack::Version version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be null
  uint64_t flags;
  rl::dlpack::View dl_tensor;
};

static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
static_assert(offsetof(rl::dlpack::View, device) == 8);
static_assert(offsetof(rl::dlpack::View, ndim) == 16);
static_assert(offsetof(rl::dlpack::View, dtype) == 20);
static_assert(offsetof(rl::dlpack::View, shape) == 24);
static_assert(offsetof(rl::dlpack::View, strides) == 32);
static_assert(offsetof(rl::dlpack::View, byte_offset) == 40);
static_assert(sizeof(DLManagedTensorVersioned) == 80);
