// A block has a chunk of the squares.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/optimizer_kernels.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {
namespace {

RL_KERNEL void chunk_squares_kernel(SquaresParams p) {
  const int64_t first = block_x() * kSquaresChunk;
  const int64_t end = p.count < first + kSquaresChunk ? p.count : first + kSquaresChunk;
  double sum = 0;
  for (int64_t i = first + thread_index(); i < end; i += kSquaresThreads) {
    const double value = p.values[i];
    sum += value * value;
  }
  sum = add_block(sum, shared_at<double>(0));
  if (thread_index() == 0) p.chunk_sums[block_x()] = sum;
}

RL_KERNEL void adamw_kernel(AdamwRangeParams p) {
  const AdamwStep& c = p.step;
  for_each_element(p.count, [&](int64_t i) {
    const float g = c.grad_scale * p.grad[i], m = p.m[i];
    const float new_m = m + (g - m) * c.one_minus_beta1;
    const float new_v = p.v[i] * c.beta2 + (c.one_minus_beta2 * g) * g;
    const float denominator = sqrt_of(new_v) / c.sqrt_bias_correction2 + c.eps;
    p.param[i] = p.param[i] * c.decay_factor + (c.minus_step_size * new_m) / denominator;
    p.m[i] = new_m;
    p.v[i] = new_v;
  });
}

}  // namespace

void chunk_squares(cudaStream_t stream, const SquaresParams& params) {
  const int64_t chunks = (params.count + kSquaresChunk - 1) / kSquaresChunk;
  launch("chunk_squares", chunk_squares_kernel,
         LaunchShape{chunks, kSquaresThreads, kSquaresThreads / kLanes * sizeof(double)}, stream,
         params);
}
void adamw(cudaStream_t stream, const AdamwRangeParams& params) {
  launch("adamw", adamw_kernel, element_blocks(params.count), stream, params);
}

}  // namespace rl::cuda
