// An optimizer step over flat arrays of the device.
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/flat_arrays_kernels.h"
#include "ops/cuda/kernels/rows/low_bit_adamw_kernels.h"
#include "ops/cuda/kernels/rows/optimizer_kernels.h"
#include "ops/cuda/kernels/rows/packing_kernels.h"
#include "ops/cuda/kernels/rows/rounded_sum_kernels.h"

namespace rl::cuda {
namespace {

static_assert(kSquaresChunk == kOptimizerChunk);
static_assert(kLowBitBlock == kRoundingBlock && kLowBitBlock == kInt8Block);

RoundingWords words_of(const RoundingKey& r) { return {r.key, r.step, r.stream}; }

}  // namespace

// The sums of the chunks go to the host, which adds them in order.
void squared_norm(Compute& compute, const SquaredNormArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  double* const sums = gpu.scratch<double>(static_cast<int64_t>(a.chunk_sums.size()));
  chunk_squares(gpu.stream(), {a.values, a.count, sums});
  gpu.download(sums, a.chunk_sums);
  a.sum = 0;
  for (const double sum : a.chunk_sums) a.sum += sum;
}

void square_chunk(Compute& compute, const SquareChunkArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const auto count = static_cast<int64_t>(a.values.size());
  a.sum = 0;
  if (count == 0) return;
  float* const values = gpu.scratch<float>(count);
  double* const sum = gpu.scratch<double>(1);
  gpu.upload_to(a.values.data(), values, a.values.size_bytes());
  chunk_squares(gpu.stream(), {values, count, sum});
  gpu.download(sum, std::span(&a.sum, 1));
}

void adamw(Compute& compute, const AdamwArgs& a) {
  adamw(cuda_of(compute).stream(), {a.step, a.param, a.m, a.v, a.grad, a.count});
}

void adamw_bf16(Compute& compute, const AdamwBf16Args& a) {
  const AdamwBf16Arrays& all = a.all;
  adamw_bf16(cuda_of(compute).stream(), {a.step, words_of(a.rounding), all.param, all.m, all.v,
                                         all.grad, all.count, all.index});
}

void adamw_int8(Compute& compute, const AdamwInt8Args& a) {
  const AdamwInt8Arrays& all = a.all;
  adamw_int8(cuda_of(compute).stream(),
             {a.step, words_of(a.rounding), all.param, all.m, all.m_scales, all.v, all.v_scales,
              all.grad, all.count, all.first_block});
}

void scale_add(Compute& compute, const ScaleAddArgs& a) {
  scale_add(cuda_of(compute).stream(), {a.all, a.count});
}

void transpose_rows(Compute& compute, const TransposeRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  round_transposed(gpu.stream(), {a.from, a.to, gpu.dtype(), a.rows, a.columns});
}

void average_floats(Compute& compute, const AverageFloatsArgs& a) {
  average_floats(cuda_of(compute).stream(), {ema_weight(a.decay), a.weights, a.averages, a.count});
}

void add_rounded(Compute& compute, const AddRoundedArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const RoundedSum& all = a.all;
  const bool by_row = !a.rows.empty();
  add_rounded(
      gpu.stream(),
      {words_of(a.rounding), all.from, all.to, all.index, by_row ? gpu.upload(a.rows) : nullptr,
       by_row ? static_cast<int64_t>(a.rows.size()) : 1, by_row ? a.width : all.count});
}

void widen_bf16(Compute& compute, const WidenBf16Args& a) {
  widen_bf16(cuda_of(compute).stream(), {a.from, a.to, a.count});
}

void exchange_floats(Compute& compute, const ExchangeFloatsArgs& a) {
  exchange_floats(cuda_of(compute).stream(), {a.a, a.b, a.count});
}

}  // namespace rl::cuda
