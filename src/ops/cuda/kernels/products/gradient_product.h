// grad += dy^T x: the gradient of a weight matrix, summed over the rows of a batch.
//
// Order of a sum: rows in chunks of kGradientSumRows. A chunk is summed in one fp32 accumulator
// that starts at 0: in bf16 16 rows at a time by mma.m16n8k16, whose inner order is the
// instruction's own, in fp32 row after row by fma(dy, x, sum). The sums of the chunks are added in
// order to a total, and that to grad.
#pragma once
#include <cuda_runtime_api.h>

#include "ops/cuda/kernels/products/product_params.h"

namespace rl::cuda {

void gradient_product_mma(cudaStream_t stream, const GradientProductParams& params);
void gradient_product_fp32(cudaStream_t stream, const GradientProductParams& params);

}  // namespace rl::cuda
