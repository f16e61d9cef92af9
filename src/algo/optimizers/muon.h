// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) for the matrices of layers:
// momentum whose singular values are all brought near 1. For a matrix of r rows and c columns, with
// g the gradient after clipping:
//
//   m = mu * m + g;  u = g + mu * m                            (Nesterov's momentum)
//   x = u / (|u| + 1e-7), |u| the Frobenius norm
//   ns_steps times: A = x x^T;  x = 3.4445 x + (-4.7750 A + 2.0315 A A) x
//   p = p * (1 - lr * decay) - lr * 0.2 * sqrt(max(r, c)) * x
//
// If r > c, A is x^T x and multiplies from the right. The factor 0.2 sqrt(max(r, c)) is that of
// Moonlight (arXiv 2502.16982) and torch.optim.Muon's match_rms_adamw: updates have the size of
// AdamW's, so that both take the same learning rate and decay.
#pragma once
#include <cstdint>

namespace rl {

struct MuonParams {
  double momentum = 0.95;  // [0, 1)
  int64_t ns_steps = 5;    // 1..20
};

// Throws Error(kOutOfRange) naming the option.
void validate(const MuonParams& params);

struct NewtonSchulz {
  static constexpr float kLinear = 3.4445f, kCubic = -4.7750f, kQuintic = 2.0315f;
};

// 1 / (|u| + 1e-7), from |u|^2.
float muon_norm_scale(double norm_squared);

// lr * 0.2 * sqrt(max(r, c)).
float muon_update_scale(double lr, int64_t rows, int64_t columns);

}  // namespace rl
