// Entries that go to rows which may repeat, sorted by row on the host, so that a device adds those
// of a row in order without atomics.
#pragma once
#include <cstdint>
#include <span>

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/rows/rows_kernels.h"

namespace rl::cuda {

// rows[i] is where entry i goes. The result lies in scratch.
Runs upload_runs(CudaCompute& compute, std::span<const int32_t> rows);

}  // namespace rl::cuda
