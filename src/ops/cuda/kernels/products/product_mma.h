// y = x W^T in bf16 by tensor cores, with fp32 sums.
//
// Order of a sum: one fp32 accumulator per element of y, which starts at 0; K is walked upwards in
// steps of 16, each one mma.m16n8k16 on the accumulator; the last step is filled with zeros. Inside
// a step the order is the instruction's own. So an element depends on its row of x and its row of W
// alone: tiles of 16 rows, for few rows, and of 64 give the same bits.
#pragma once
#include <cuda_runtime_api.h>

#include "ops/cuda/kernels/products/product_params.h"

namespace rl::cuda {

void product_mma(cudaStream_t stream, const ProductParams& params);

}  // namespace rl::cuda
