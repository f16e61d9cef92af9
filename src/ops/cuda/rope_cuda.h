// RoPE and the write of keys and values, for the ops that have a projection: project_qkv() and, in
// decode, attend().
#pragma once
#include "ops/cuda/cuda_compute.h"
#include "ops/rope_kv.h"

namespace rl::cuda {

// All rows and heads of the arguments. qkv, bias, q and pool are memory of the device, places and
// table of the host. Takes scratch: the caller's scope gives it back.
void rope_and_write_kv(CudaCompute& compute, const RopeKvArgs& args);

}  // namespace rl::cuda
