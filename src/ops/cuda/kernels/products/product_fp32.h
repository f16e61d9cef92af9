// y = x W^T in fp32, without tensor cores.
//
// Order of a sum: one fp32 accumulator per element of y, which starts at 0; sum = fma(x, w, sum)
// for each column of K upwards. Tiles of 16 and of 64 rows give the same bits.
#pragma once
#include <cuda_runtime_api.h>

#include "ops/cuda/kernels/products/product_params.h"

namespace rl::cuda {

void product_fp32(cudaStream_t stream, const ProductParams& params);

}  // namespace rl::cuda
