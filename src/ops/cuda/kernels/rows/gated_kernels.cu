// Elements are independent. 1 - sigmoid is exp(-s) * sigmoid, which loses no digits.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/element_blocks.h"
#include "ops/cuda/kernels/rows/gated_kernels.h"

namespace rl::cuda {
namespace {

constexpr float kScale = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float kCube = 0.044715f;
constexpr float kMostExponent = 88.0f;  // exp of it is finite
constexpr float kFar = 16.0f;           // beyond it sigmoid or 1 - sigmoid of gelu_tanh is 0

// exp(-s(z)), finite.
RL_DEVICE float exp_minus(Activation activation, float z) {
  const float minus =
      activation == Activation::kSilu ? -z : z * fma_rn(kCube, z * z, 1.0f) * -kScale;
  return exp_of(minus < kMostExponent ? minus : kMostExponent);
}

// z (1 - sigmoid) times the derivative of s, where rest is 1 - sigmoid.
RL_DEVICE float bend(Activation activation, float z, float rest) {
  if (activation == Activation::kSilu) return z * rest;
  const float near = z < -kFar ? -kFar : (z > kFar ? kFar : z);
  return near * rest * (fma_rn(3 * kCube, near * near, 1.0f) * kScale);
}

RL_DEVICE float gated(Activation activation, float gate, float up) {
  return gate * (1.0f / (1.0f + exp_minus(activation, gate))) * up;
}

RL_KERNEL void gate_product_kernel(GateProductParams p) {
  for_each_in_row(p.ffn, [&](int64_t row, int64_t column) {
    const int64_t at = row * 2 * p.ffn + column;
    const float gate = round_to(p.dtype, p.product[at]),
                up = round_to(p.dtype, p.product[at + p.ffn]);
    store_element(p.dtype, p.h, row * p.ffn + column, gated(p.activation, gate, up));
    if (p.gate_up == nullptr) return;
    store_element(p.dtype, p.gate_up, at, gate);
    store_element(p.dtype, p.gate_up, at + p.ffn, up);
  });
}

RL_KERNEL void gate_rows_kernel(GateRowsParams p) {
  for_each_in_row(p.ffn, [&](int64_t row, int64_t column) {
    const int64_t at = row * 2 * p.ffn + column;
    const float gate = load_element(p.dtype, p.gate_up, at),
                up = load_element(p.dtype, p.gate_up, at + p.ffn);
    store_element(p.dtype, p.h, row * p.ffn + column, gated(p.activation, gate, up));
  });
}

RL_KERNEL void gate_backward_kernel(GateBackwardParams p) {
  for_each_in_row(p.ffn, [&](int64_t row, int64_t column) {
    const int64_t at = row * 2 * p.ffn + column;
    const float z = load_element(p.dtype, p.gate_up, at),
                up = load_element(p.dtype, p.gate_up, at + p.ffn);
    const float dh = p.dh[row * p.ffn + column];
    const float e = exp_minus(p.activation, z), sigmoid = 1.0f / (1.0f + e), rest = e * sigmoid;
    const float slope = sigmoid * (1.0f + bend(p.activation, z, rest));
    store_element(p.dtype, p.d_gate_up, at, dh * up * slope);
    store_element(p.dtype, p.d_gate_up, at + p.ffn, dh * (z * sigmoid));
  });
}

}  // namespace

void gate_product(cudaStream_t stream, const GateProductParams& params) {
  launch("gate_product", gate_product_kernel, row_blocks(params.rows, params.ffn), stream, params);
}
void gate_rows(cudaStream_t stream, const GateRowsParams& params) {
  launch("gate_rows", gate_rows_kernel, row_blocks(params.rows, params.ffn), stream, params);
}
void gate_backward(cudaStream_t stream, const GateBackwardParams& params) {
  launch("gate_backward", gate_backward_kernel, row_blocks(params.rows, params.ffn), stream,
         params);
}

}  // namespace rl::cuda
