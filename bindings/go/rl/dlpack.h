/* dlpack.h: what Go cannot do with tensors of DLPack 1.x: call a deleter, show an array for the
 * length of one call, and name a stream, which may be a small number that no Go pointer may be. */
#pragma once
#include "rl.h"

void rl_go_dlpack_end(struct DLManagedTensorVersioned* managed);

/* A tensor with a copy of a row-major array of fp32, bf16 or int32. */
rl_status rl_go_tensor(rl_runtime* runtime, void* data, int32_t dtype, int64_t* shape,
                       int32_t num_dims, rl_tensor** out, rl_error** err);

/* Where the values of a tensor are wanted, as rl_tensor_request. */
typedef struct rl_go_place {
  uint64_t flags;
  int32_t device, device_index;
  uintptr_t stream;
} rl_go_place;

rl_status rl_go_weight(const rl_model* model, const char* name, size_t name_len, rl_go_place place,
                       rl_tensor** out, rl_error** err);
rl_status rl_go_gradient(rl_trainer* trainer, const char* name, size_t name_len, rl_go_place place,
                         rl_tensor** out, rl_error** err);
rl_status rl_go_import(rl_runtime* runtime, struct DLManagedTensorVersioned* managed,
                       uintptr_t stream, uint64_t flags, rl_tensor** out, rl_error** err);
rl_status rl_go_export(const rl_tensor* tensor, uintptr_t stream,
                       struct DLManagedTensorVersioned** out, rl_error** err);
