// Half a warp has a value; a thread has a column of the gradient.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/values_kernels.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kValuesPerBlock = kThreads / kLanesOfValue;

// A half warp past the last value exchanges zeros with itself.
RL_KERNEL void value_rows_kernel(ValueRowsParams p) {
  const int64_t i = block_x() * kValuesPerBlock + thread_index() / kLanesOfValue;
  const int64_t lane = thread_index() % kLanesOfValue;
  float sum = 0;
  if (i < p.count) {
    const int64_t at = p.rows[i] * p.width;
    for (int64_t c = lane; c < p.width; c += kLanesOfValue)
      sum += load_element(p.dtype, p.hidden, at + c) * p.w[c];
  }
  for (int distance = kLanesOfValue / 2; distance > 0; distance /= 2)
    sum += shuffle_xor(sum, distance);
  if (lane == 0 && i < p.count) p.values[i] = sum;
}

RL_KERNEL void value_gradient_kernel(ValueGradientParams p) {
  const int64_t column = block_x() * kThreads + thread_index();
  if (column >= p.width) return;
  float sum = p.grad[column];
  for (int64_t i = 0; i < p.count; ++i)
    sum += p.d_value[i] * load_element(p.dtype, p.hidden, p.rows[i] * p.width + column);
  p.grad[column] = sum;
}

}  // namespace

void value_rows(cudaStream_t stream, const ValueRowsParams& params) {
  launch("value_rows", value_rows_kernel,
         LaunchShape{(params.count + kValuesPerBlock - 1) / kValuesPerBlock, kThreads}, stream,
         params);
}
void value_gradient(cudaStream_t stream, const ValueGradientParams& params) {
  launch("value_gradient", value_gradient_kernel,
         LaunchShape{(params.width + kThreads - 1) / kThreads, kThreads}, stream, params);
}

}  // namespace rl::cuda
