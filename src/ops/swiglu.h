// SwiGLU: h = silu(gate) * up, silu(z) = z / (1 + exp(-z)).
// Rounding: gate and up are rounded to the compute dtype first (so that a backward from saved values sees what the
// forward saw), arithmetic in fp32, h rounded once.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

// One block of rows and F columns out of a dense fp32 tile that holds gate columns first, then up columns.
struct SwigluArgs {
  const float* tile;      // (rows, 2 * cols)
  void* h;                // row r at h + r * h_stride elements
  void* gate;             // null, or where rounded gate goes (row stride gate_stride)
  void* up;               // null, or where rounded up goes (same stride)
  int64_t h_stride, gate_stride;
  Dtype dtype;
  int64_t rows, cols;
};
void swiglu(const SwigluArgs& args);

// h again from saved gate and up: the bits of the forward.
struct SwigluRecomputeArgs {
  const void* gate_up;  // (rows, 2F): gate then up
  void* h;              // (rows, F)
  Dtype dtype;
  int64_t rows, ffn;
};
void swiglu_recompute(const SwigluRecomputeArgs& args);

// dh as a dense fp32 tile of columns [col0, col0 + cols); writes d_gate and d_up, rounded to the compute dtype.
struct SwigluBackwardArgs {
  const float* dh;      // (rows, cols)
  const void* gate_up;  // (rows, 2F)
  void* d_gate_up;      // (rows, 2F)
  Dtype dtype;
  int64_t rows, col0, cols, ffn;
};
void swiglu_backward(const SwigluBackwardArgs& args);

}  // namespace rl
