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

static rl_tensor_request request_of(rl_go_place place) {
  rl_tensor_request request;
  rl_tensor_request_init(&request, sizeof request);
  request.flags = place.flags;
  request.device = place.device;
  request.device_index = place.device_index;
  request.stream = (void*)place.stream;
  return request;
}

rl_status rl_go_weight(const rl_model* model, const char* name, size_t name_len, rl_go_place place,
                       rl_tensor** out, rl_error** err) {
  const rl_tensor_request request = request_of(place);
  return rl_model_weight(model, name, name_len, &request, out, err);
}

rl_status rl_go_gradient(rl_trainer* trainer, const char* name, size_t name_len, rl_go_place place,
                         rl_tensor** out, rl_error** err) {
  const rl_tensor_request request = request_of(place);
  return rl_trainer_gradient(trainer, name, name_len, &request, out, err);
}

rl_status rl_go_import(rl_runtime* runtime, struct DLManagedTensorVersioned* managed,
                       uintptr_t stream, uint64_t flags, rl_tensor** out, rl_error** err) {
  return rl_tensor_import_dlpack(runtime, managed, (void*)stream, flags, out, err);
}

rl_status rl_go_export(const rl_tensor* tensor, uintptr_t stream,
                       struct DLManagedTensorVersioned** out, rl_error** err) {
  return rl_tensor_export_dlpack(tensor, (void*)stream, out, err);
}
