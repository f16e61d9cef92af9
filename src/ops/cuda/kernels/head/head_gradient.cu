// Element-wise. The id's own element is computed from 1 - p, whose error does not grow as p
// nears 1.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/head/head_gradient.h"
#include "ops/cuda/kernels/rows/element_blocks.h"

namespace rl::cuda {
namespace {

RL_KERNEL void RL_BOUNDS(kElementThreads, 1) head_gradient_kernel(HeadGradientParams p) {
  for_each_in_row(p.count, [&](int64_t row, int64_t column) {
    const int64_t id = p.first + column, at = row * p.vocab + id;
    const RowStats stats = p.stats[row];
    const float scale = p.inv_temperature[row];
    const float log_p = log_prob(p.z[at], stats), probability = exp_of(log_p);
    const float pull = -p.d_entropy[row] * scale * (log_p + stats.entropy);
    const float d = p.d_logprob[row];
    float gradient = id == p.ids[row] ? scale * d * (1.0f - probability) + probability * pull
                                      : probability * (-d * scale + pull);
    if (p.more != nullptr) gradient += scale * p.more[at];
    store_element(p.dtype, p.d_logits, row * p.count + column, gradient);
  });
}

}  // namespace

void head_gradient(cudaStream_t stream, const HeadGradientParams& p) {
  launch("head_gradient", head_gradient_kernel, row_blocks(p.rows, p.count), stream, p);
}

}  // namespace rl::cuda
