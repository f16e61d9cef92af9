// The ops of the backward: each computes a whole batch of N rows. See ops/forward_ops.h.
//
// Contract
// - Gradients of vectors (norms, biases) are summed over rows in chunks of kGradientRows: rows in
//   order within a chunk, chunk sums in order. The chunks' sums lie in `partial`, of
//   row_sum_floats().
// - Gradients are added to what is there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/backward_work.h"
#include "ops/forward_ops.h"

namespace rl {

constexpr int64_t kGradientRows = 64;
constexpr int64_t num_gradient_chunks(int64_t rows) {
  return (rows + kGradientRows - 1) / kGradientRows;
}
// Floats of `partial` for vectors of up to `width` elements.
constexpr int64_t row_sum_floats(int64_t rows, int64_t width) {
  return num_gradient_chunks(rows) * width;
}

// y = x W^T, stored.
struct ProjectArgs {
  const PackedMatrix& w;
  const std::byte* x;  // compute dtype
  int64_t rows;
  float* y;
  bool in_forward = false;  // a row's bits do not depend on the other rows, as in forward_ops.h
};

// grad[n, k] += dy^T x over the rows. Overwrites what follows the last row of dy and x, up to
// padded_gradient_rows(rows) rows, with zeros.
struct WeightGradientArgs {
  std::byte* dy;  // (rows, n) compute dtype
  int64_t n;
  std::byte* x;  // (rows, k) compute dtype
  int64_t k;
  int64_t rows;
  float* grad;
  int64_t dy_stride = 0;  // elements from row to row of dy; 0: n
};

// y = norm(x), with the forward's bits.
struct NormRowsArgs {
  const float* x;  // (N, C)
  RowNorm norm;
  std::byte* y;  // (N, C) compute dtype
  int64_t rows, hidden;
};
struct NormRowsBackwardArgs {
  const float* x;   // (N, C) the forward's input
  const float* dy;  // (N, C)
  RowNorm norm;
  float* dx;    // (N, C), accumulated
  float* grad;  // (C), accumulated; null: not computed
  int64_t rows, hidden;
  float* partial;
};

// to[i] = from[i] rounded to the compute dtype.
struct RoundFloatsArgs {
  const float* from;
  int64_t count;
  std::byte* to;
};

// h from saved gate and up, with the forward's bits.
struct GluRowsArgs {
  const std::byte* gate_up;  // (N, 2F)
  std::byte* h;              // (N, F)
  int64_t rows, ffn;
  Activation activation;
};
// dh = dy W, then d_gate and d_up of each tile, and its gated units h as glu_rows() has them; dh is
// not stored.
struct ProjectGatedBackwardArgs {
  const PackedMatrix& w;
  const std::byte* dy;       // (N, C) compute dtype
  const std::byte* gate_up;  // (N, 2F), saved
  std::byte* d_gate_up;      // (N, 2F) compute dtype
  int64_t rows;
  Activation activation;
  std::byte* h = nullptr;  // (N, F) compute dtype, or null
};

// All pieces of the work, step by step.
struct AttendBackwardArgs {
  AttentionBackwardArgs attention;
  BackwardWork& work;  // its sums are zeroed first
  std::byte* workspace;
};
inline uint64_t attention_backward_workspace_bytes(const AttentionShape& shape, int num_threads) {
  return static_cast<uint64_t>(num_threads) *
         static_cast<uint64_t>(attention_backward_scratch_floats(shape)) * sizeof(float);
}

// Adds the sums of shared prefixes to their rows, then takes the gradients of q and k back through
// RoPE and head norms, to rounded gradients of the QKV projection.
struct RopeRowsBackwardArgs {
  RopeBackwardArgs rope;  // of all rows; d_norm is null
  const BackwardWork& work;
  float *q_norm_grad, *k_norm_grad;  // (D) each, accumulated; null: not computed
  float* partial;                    // of width 2 D; unused without head norms
};

// grad += sum of the rows of dy.
struct BiasGradientArgs {
  const float* dy;  // (N, width)
  int64_t rows, width;
  float* partial;
  float* grad;
  int64_t dy_stride = 0;  // floats from row to row of dy; 0: width
};

// Adds each row of dx times scale to the row of grad of its token, tokens in order.
struct EmbedRowsBackwardArgs {
  const float* dx;  // (N, C)
  std::span<const int32_t> ids;
  int64_t hidden;
  float scale;
  float* grad;  // (V, C)
};

}  // namespace rl
