// Gated linear units, element by element (ops/glu.h): h = (gate * sigmoid(s(gate))) * up, from a
// product in fp32 or from saved gate and up, with the same bits; and the backward.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"
#include "ops/glu.h"

namespace rl::cuda {

// Rounds gate and up, stores them if gate_up is given, and h.
struct GateProductParams {
  const float* product;  // (rows, 2F): gate columns, then up columns
  void* h;               // (rows, F)
  void* gate_up;         // (rows, 2F), or null
  Dtype dtype;           // of h and gate_up
  int64_t rows, ffn;
  Activation activation;
};
void gate_product(cudaStream_t stream, const GateProductParams& params);

struct GateRowsParams {
  const void* gate_up;  // (rows, 2F)
  void* h;              // (rows, F)
  Dtype dtype;
  int64_t rows, ffn;
  Activation activation;
};
void gate_rows(cudaStream_t stream, const GateRowsParams& params);

struct GateBackwardParams {
  const float* dh;      // (rows, F)
  const void* gate_up;  // (rows, 2F)
  void* d_gate_up;      // (rows, 2F)
  Dtype dtype;          // of gate_up and d_gate_up
  int64_t rows, ffn;
  Activation activation;
};
void gate_backward(cudaStream_t stream, const GateBackwardParams& params);

}  // namespace rl::cuda
