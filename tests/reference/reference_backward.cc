// The backward's ops of the reference device, attention apart.
#include "reference_device.h"
#include "reference_elements.h"

namespace rl::testing::reference {
namespace {

using Sums = std::vector<double>;

Sums zeros(int64_t count) { return Sums(static_cast<size_t>(count), 0.0); }

// A gradient that is null is not computed.
void add_to(const Sums& sums, float* grad) {
  if (grad == nullptr) return;
  for (size_t i = 0; i < sums.size(); ++i) grad[i] = static_cast<float>(grad[i] + sums[i]);
}

}  // namespace

void weight_gradient(Compute& compute, const WeightGradientArgs& a) {
  const Dtype t = compute.dtype();
  const int64_t stride = a.dy_stride != 0 ? a.dy_stride : a.n;
  Sums x = zeros(a.rows * a.k);
  for (size_t i = 0; i < x.size(); ++i) x[i] = get(t, a.x, static_cast<int64_t>(i));
  for (int64_t n = 0; n < a.n; ++n) {
    Sums sums = zeros(a.k);
    for (int64_t r = 0; r < a.rows; ++r) {
      const double dy = get(t, a.dy, r * stride + n);
      for (int64_t k = 0; k < a.k; ++k) sums[k] += dy * x[r * a.k + k];
    }
    add_to(sums, a.grad + n * a.k);
  }
}

void norm_rows_backward(Compute&, const NormRowsBackwardArgs& a) {
  Sums dw = zeros(a.hidden);
  for (int64_t r = 0; r < a.rows; ++r) {
    float* dx = a.dx + r * a.hidden;
    norm_of(a.norm, a.hidden)
        .backward(
            a.x + r * a.hidden, a.dy + r * a.hidden,
            [&](int64_t c, double v) { dx[c] = static_cast<float>(dx[c] + v); },
            [&](int64_t c, double v) { dw[c] += v; });
  }
  add_to(dw, a.grad);
}

void project_gated_backward(Compute& compute, const ProjectGatedBackwardArgs& a) {
  const Dtype t = compute.dtype();
  const int64_t ffn = a.w.shape().slices.n;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < ffn; ++c) {
      const int64_t at = r * 2 * ffn + c;
      const double gate = get(t, a.gate_up, at), up = get(t, a.gate_up, at + ffn);
      const double dh = product(t, a.w, a.dy, r, c);
      const Gate g(a.activation, gate);
      put(t, a.d_gate_up, at, dh * up * g.slope);
      put(t, a.d_gate_up, at + ffn, dh * gate * g.value);
    }
  }
  if (a.h != nullptr) reference::glu_rows(compute, {a.gate_up, a.h, a.rows, ffn, a.activation});
}

void bias_gradient(Compute&, const BiasGradientArgs& a) {
  const int64_t stride = a.dy_stride != 0 ? a.dy_stride : a.width;
  Sums sums = zeros(a.width);
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.width; ++c) sums[c] += a.dy[r * stride + c];
  add_to(sums, a.grad);
}

void embed_rows_backward(Compute&, const EmbedRowsBackwardArgs& a) {
  for (size_t r = 0; r < a.ids.size(); ++r) {
    const float* from = a.dx + static_cast<int64_t>(r) * a.hidden;
    float* to = a.grad + a.ids[r] * a.hidden;
    for (int64_t c = 0; c < a.hidden; ++c)
      to[c] = static_cast<float>(to[c] + static_cast<double>(from[c]) * a.scale);
  }
}

}  // namespace rl::testing::reference
