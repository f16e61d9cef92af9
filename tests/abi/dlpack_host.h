// The host's side of DLPack: the struct as such a host declares it, written apart from that of
// the library, and a producer that counts how often its deleter is called.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

extern "C" {
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;  // 1: read-only, 2: is copied, 4: sub-byte elements are padded
  struct {
    void* data;
    int32_t device_type, device_id;  // 1: CPU
    int32_t ndim;
    uint8_t code, bits;  // code 0: signed, 1: unsigned, 2: float, 4: bfloat
    uint16_t lanes;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
  } t;
};
}

namespace abi_test {

// A float32 tensor of the CPU that its fields can spoil. It outlives its deleter's calls.
class Producer {
 public:
  explicit Producer(std::vector<int64_t> shape, std::vector<float> values = {})
      : values(std::move(values)), shape(std::move(shape)) {
    managed.major = 1;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
    managed.t.data = this->values.data();
    managed.t.device_type = 1;
    managed.t.ndim = static_cast<int32_t>(this->shape.size());
    managed.t.code = 2;
    managed.t.bits = 32;
    managed.t.lanes = 1;
    managed.t.shape = this->shape.data();
  }
  Producer(const Producer&) = delete;

  std::vector<float> values;
  std::vector<int64_t> shape, strides;
  DLManagedTensorVersioned managed{};
  std::atomic<int> deleted = 0;
};

inline void end(DLManagedTensorVersioned* managed) { managed->deleter(managed); }

}  // namespace abi_test
