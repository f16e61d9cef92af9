#include "dlpack.h"

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  void* data;
  int32_t device_type, device_id;
  int32_t num_dims;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

void rl_go_dlpack_end(struct DLManagedTensorVersioned* managed) {
  if (managed != NULL && managed->deleter != NULL) managed->deleter(managed);
}

rl_status rl_go_tensor(rl_runtime* runtime, void* data, int32_t dtype, int64_t* shape,
                       int32_t num_dims, rl_tensor** out, rl_error** err) {
  struct DLManagedTensorVersioned managed = {
      .major = 1, .data = data, .device_type = 1, .num_dims = num_dims, .lanes = 1, .shape = shape};
  managed.code = dtype == RL_DTYPE_I32 ? 0 : dtype == RL_DTYPE_BF16 ? 4 : 2;
  managed.bits = dtype == RL_DTYPE_BF16 ? 16 : 32;
  return rl_tensor_import_dlpack(runtime, &managed, NULL, RL_TENSOR_COPY, out, err);
}
