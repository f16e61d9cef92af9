/* dlpack.h: what Go cannot do with tensors of DLPack 1.x: call a deleter, and show an array for the
 * length of one call. */
#pragma once
#include "rl.h"

void rl_go_dlpack_end(struct DLManagedTensorVersioned* managed);

/* A tensor with a copy of a row-major array of fp32, bf16 or int32. */
rl_status rl_go_tensor(rl_runtime* runtime, void* data, int32_t dtype, int64_t* shape,
                       int32_t num_dims, rl_tensor** out, rl_error** err);
