// A thread has up to four elements of a row.
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/rounded_sum_kernels.h"
#include "ops/cuda/kernels/rows/rounding_bits.h"

namespace rl::cuda {
namespace {

constexpr uint16_t kNan = 0x7fc0;

RL_KERNEL void add_rounded_kernel(AddRoundedParams p) {
  for_each_in_row(p.width, [&](int64_t row, int64_t column) {
    const int64_t from = row * p.width + column;
    const int64_t to = (p.rows != nullptr ? p.rows[row] : row) * p.width + column;
    const uint64_t place = p.index + static_cast<uint64_t>(to);
    const uint32_t word =
        word_of(p.rounding, place / kWordBlock, static_cast<int>(place % kWordBlock));
    const float sum = value_of_bf16(p.to[to]) + p.from[from];
    p.to[to] = sum == sum ? rounded_bf16(sum, word & 0xffffu) : kNan;
    p.from[from] = 0;
  });
}

RL_KERNEL void widen_bf16_kernel(WidenParams p) {
  for_each_element(p.count, [&](int64_t i) { p.to[i] = value_of_bf16(p.from[i]); });
}

}  // namespace

void add_rounded(cudaStream_t stream, const AddRoundedParams& params) {
  launch("add_rounded", add_rounded_kernel, row_blocks(params.count, params.width), stream, params);
}
void widen_bf16(cudaStream_t stream, const WidenParams& params) {
  launch("widen_bf16", widen_bf16_kernel, element_blocks(params.count), stream, params);
}

}  // namespace rl::cuda
