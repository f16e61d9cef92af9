// RMSNorm: y = x * w / sqrt(mean(x^2) + eps), per row. Some models store w - 1; one is added in
// fp32 first. Shapes: x [rows, C] fp32, w [C] fp32, y [rows, C] of the compute dtype. In place is
// not allowed. Rounding: all arithmetic in fp32 (x * inv, then * w), y rounded once. Reduction:
// sum_lanes over C. rms_norm_add keeps y in fp32 and adds it to a residual, rounding the sum once.
// Backward, with g = dy * w and inv as above:
//   dx = inv * (g - x * inv^2 * mean(g * x)), added to dx.
//   dw += sum over rows of dy * x * inv, rows in order.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace rl {

enum class NormWeight : uint8_t {
  kPlain = 0,
  kMinusOne = 1
};  // what the weight vector holds: w or w - 1

struct RmsNormArgs {
  const float* x;  // (rows, C)
  const float* w;  // (C)
  void* y;         // (rows, C) compute dtype
  Dtype dtype;
  int64_t rows, hidden;
  float eps;
  NormWeight weight = NormWeight::kPlain;
};
void rms_norm(const RmsNormArgs& args);

struct RmsNormAddArgs {
  const float* x;         // (rows, C)
  const float* w;         // (C)
  const float* residual;  // (rows, C)
  float* y;               // (rows, C) residual + norm; may be residual
  int64_t rows, hidden;
  float eps;
  NormWeight weight;
};
void rms_norm_add(const RmsNormAddArgs& args);

struct RmsNormBackwardArgs {
  const float* x;   // (rows, C) the forward's input
  const float* w;   // (C)
  const float* dy;  // (rows, C)
  float* dx;        // (rows, C), accumulated
  float* dw;        // (C), accumulated: private to the calling task
  int64_t rows, hidden;
  float eps;
  NormWeight weight = NormWeight::kPlain;
};
void rms_norm_backward(const RmsNormBackwardArgs& args);

}  // namespace rl
