// A thread has up to four elements.
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/flat_arrays_kernels.h"

namespace rl::cuda {
namespace {

RL_KERNEL void scale_add_kernel(ScaleAddParams p) {
  const ScaleAdd& s = p.all;
  for_each_element(p.count, [&](int64_t i) {
    if (s.x == nullptr)
      s.y[i] = s.y_scale * s.y[i];
    else if (s.y_scale == 0)
      s.y[i] = s.x_scale * s.x[i];
    else
      s.y[i] = s.y_scale * s.y[i] + s.x_scale * s.x[i];
  });
}

RL_KERNEL void average_floats_kernel(AverageParams p) {
  for_each_element(p.count, [&](int64_t i) {
    const float average = p.averages[i];
    p.averages[i] = average + p.weight * (p.weights[i] - average);
  });
}

RL_KERNEL void exchange_floats_kernel(ExchangeParams p) {
  for_each_element(p.count, [&](int64_t i) {
    const float a = p.a[i];
    p.a[i] = p.b[i];
    p.b[i] = a;
  });
}

}  // namespace

void scale_add(cudaStream_t stream, const ScaleAddParams& params) {
  launch("scale_add", scale_add_kernel, element_blocks(params.count), stream, params);
}
void average_floats(cudaStream_t stream, const AverageParams& params) {
  launch("average_floats", average_floats_kernel, element_blocks(params.count), stream, params);
}
void exchange_floats(cudaStream_t stream, const ExchangeParams& params) {
  launch("exchange_floats", exchange_floats_kernel, element_blocks(params.count), stream, params);
}

}  // namespace rl::cuda
