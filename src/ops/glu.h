// Gated linear units: h = act(gate) * up, with act(z) = z * sigmoid(s(z)).
// silu: s(z) = z. gelu_tanh, the tanh approximation of GELU: s(z) = 2 sqrt(2/pi) (z + 0.044715
// z^3), since (1 + tanh(u)) / 2 = sigmoid(2u). Rounding: gate and up are rounded to the compute
// dtype first (so that a backward from saved values sees what the forward saw), arithmetic in fp32,
// h rounded once.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

enum class Activation : uint8_t { kSilu = 0, kGeluTanh = 1 };

// One block of rows and F columns out of a dense fp32 tile that holds gate columns first, then up
// columns.
struct GluArgs {
  const float* tile;  // (rows, 2 * cols)
  void* h;            // row r at h + r * h_stride elements
  void* gate;         // null, or where the rounded gate goes (row stride gate_stride)
  void* up;           // null, or where the rounded up goes (same stride)
  int64_t h_stride, gate_stride;
  Dtype dtype;
  int64_t rows, cols;
  Activation activation = Activation::kSilu;
};
void glu(const GluArgs& args);

// Recomputes h from saved gate and up, with the forward's bits.
struct GluRecomputeArgs {
  const void* gate_up;  // (rows, 2F): gate then up
  void* h;              // (rows, F)
  Dtype dtype;
  int64_t rows, ffn;
  Activation activation = Activation::kSilu;
};
void glu_recompute(const GluRecomputeArgs& args);

// dh is a dense fp32 tile of columns [col0, col0 + cols); writes d_gate and d_up, rounded to the
// compute dtype, and h with the forward's bits if it is not null.
struct GluBackwardArgs {
  const float* dh;      // (rows, cols)
  const void* gate_up;  // (rows, 2F)
  void* d_gate_up;      // (rows, 2F)
  Dtype dtype;
  int64_t rows, col0, cols, ffn;
  Activation activation = Activation::kSilu;
  void* h = nullptr;  // (rows, F)
};
void glu_backward(const GluBackwardArgs& args);

}  // namespace rl
