// AdamW whose moments are stored in bf16 or in 8 bits (algo/optimizers/low_bit_adamw.h): the same
// operations in the same order and the same random words, so the same bits.
//
// No sums. A block of 8-bit moments is one block of threads, a thread for each element; its scales
// are maxima, which have the same bits in every order.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "algo/optimizers/adamw.h"
#include "ops/cuda/kernels/rows/rounding_words.h"

namespace rl::cuda {

inline constexpr int kLowBitBlock = kWordBlock;  // elements that share scales

struct AdamwBf16Params {
  AdamwStep step;
  RoundingWords rounding;
  float* param;
  uint16_t *m, *v;
  const float* grad;
  int64_t count;
  uint64_t index;  // of the first element
};
void adamw_bf16(cudaStream_t stream, const AdamwBf16Params& params);

struct AdamwInt8Params {
  AdamwStep step;
  RoundingWords rounding;
  float* param;
  int8_t* m;
  float* m_scales;
  uint8_t* v;
  float* v_scales;
  const float* grad;
  int64_t count;
  uint64_t first_block;
};
void adamw_int8(cudaStream_t stream, const AdamwInt8Params& params);

}  // namespace rl::cuda
