// Kernels that use each part of the language once, for the tests of the emulation.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace rl::cuda::language {

// to[i] = a[i] * factor + b[i].
struct ScaleParams {
  const float* a;
  const float* b;
  float factor;
  float* to;
  int64_t count;
};
void scale(cudaStream_t stream, const ScaleParams& params);

// to[block] = the sum of a block's 256 elements, by shuffles and shared memory.
struct SumParams {
  const float* from;
  float* to;
  int64_t blocks;
};
void sum_blocks(cudaStream_t stream, const SumParams& params);
const void* sum_kernel_address();

// c (m, 8) = a (m, k) b (8, k), bf16, by mma.sync with tiles through cp.async and ldmatrix.
struct TileParams {
  const uint16_t* a;
  const uint16_t* b;
  float* c;
  int64_t tiles, depth;  // m / 16, k
};
void multiply_tiles(cudaStream_t stream, const TileParams& params);

// What ballot, shuffle, shuffle_down, loads of tiles, an address and lowest_bit of 1 << lane, of
// the bits from the lane's on, and of none give, one row of 32 values each.
struct LaneParams {
  uint32_t* to;  // (9, 32)
};
void show_lanes(cudaStream_t stream, const LaneParams& params);

}  // namespace rl::cuda::language
