// The forward's ops of the reference device, attention apart: row after row.
#include "reference_device.h"
#include "reference_elements.h"

namespace rl::testing::reference {
namespace {

// y = norm(x) of one row of the residual, rounded to the compute dtype.
void norm_row(Dtype t, const NextNorm& then, const float* x, int64_t row, int64_t hidden) {
  const NormOfRow norm = norm_of(then.norm, hidden);
  const double inv = norm.inverse(x + row * hidden);
  for (int64_t c = 0; c < hidden; ++c)
    put(t, then.y, row * hidden + c, x[row * hidden + c] * inv * norm.weight(c));
}

}  // namespace

void embed_rows(Compute& compute, const EmbedRowsArgs& a) {
  const Dtype t = compute.dtype();
  for (size_t r = 0; r < a.ids.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    const float* from = a.table + a.ids[r] * a.hidden;
    for (int64_t c = 0; c < a.hidden; ++c) {
      float& x = a.x[row * a.hidden + c];
      x = a.ids[r] < 0 ? 0.0f : round_to(t, round_to(t, from[c]) * a.scale);
    }
    norm_row(t, a.then, a.x, row, a.hidden);
  }
}

void project_qkv(Compute& compute, const ProjectQkvArgs& a) {
  const int64_t width = a.w.shape().slices.n, rows = a.heads.rows;
  std::vector<float> own;
  if (a.result == QkvResult::kHeads) own.resize(static_cast<size_t>(rows * width));
  float* qkv = own.empty() ? a.qkv : own.data();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < width; ++c)
      qkv[r * width + c] = static_cast<float>(product(compute.dtype(), a.w, a.x, r, c));
  if (a.result == QkvResult::kProjection) return;
  RopeKvArgs heads = a.heads;
  heads.qkv = qkv;
  write_heads(heads);
}

void project_residual(Compute& compute, const ProjectResidualArgs& a) {
  const Dtype t = compute.dtype();
  const int64_t hidden = a.w.shape().slices.n;
  std::vector<double> added(static_cast<size_t>(hidden));
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t at = r * hidden;
    for (int64_t c = 0; c < hidden; ++c) added[c] = product(t, a.w, a.x, r, c);
    if (a.norm.weight != nullptr) {
      const NormOfRow norm = norm_of(a.norm, hidden);
      for (int64_t c = 0; c < hidden; ++c) a.product[at + c] = static_cast<float>(added[c]);
      const double inv = norm.inverse(a.product + at);
      for (int64_t c = 0; c < hidden; ++c) added[c] = a.product[at + c] * inv * norm.weight(c);
    }
    for (int64_t c = 0; c < hidden; ++c)
      a.sum[at + c] = static_cast<float>(a.residual[at + c] + added[c]);
    norm_row(t, a.then, a.sum, r, hidden);
  }
}

void add_residual(Compute& compute, const AddResidualArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t at = r * a.hidden;
    const NormOfRow norm = norm_of(a.norm, a.hidden);
    const double inv = a.norm.weight != nullptr ? norm.inverse(a.product + at) : 1;
    for (int64_t c = 0; c < a.hidden; ++c) {
      const double weight = a.norm.weight != nullptr ? norm.weight(c) : 1;
      a.sum[at + c] = static_cast<float>(a.residual[at + c] + a.product[at + c] * inv * weight);
    }
    norm_row(compute.dtype(), a.then, a.sum, r, a.hidden);
  }
}

void project_gated(Compute& compute, const ProjectGatedArgs& a) {
  const Dtype t = compute.dtype();
  const int64_t ffn = a.w.shape().slices.n / 2;
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < ffn; ++c) {
      const double gate = rounded(t, product(t, a.w, a.x, r, c));
      const double up = rounded(t, product(t, a.w, a.x, r, ffn + c));
      put(t, a.h, r * ffn + c, gate * Gate(a.activation, gate).value * up);
      if (a.gate_up == nullptr) continue;
      put(t, a.gate_up, r * 2 * ffn + c, gate);
      put(t, a.gate_up, r * 2 * ffn + ffn + c, up);
    }
  }
}

void project(Compute& compute, const ProjectArgs& a) {
  const int64_t n = a.w.shape().slices.n;
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < n; ++c)
      a.y[r * n + c] = static_cast<float>(product(compute.dtype(), a.w, a.x, r, c));
}

void norm_rows(Compute& compute, const NormRowsArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) norm_row(compute.dtype(), {a.norm, a.y}, a.x, r, a.hidden);
}

void glu_rows(Compute& compute, const GluRowsArgs& a) {
  const Dtype t = compute.dtype();
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.ffn; ++c) {
      const double gate = get(t, a.gate_up, r * 2 * a.ffn + c);
      const double up = get(t, a.gate_up, r * 2 * a.ffn + a.ffn + c);
      put(t, a.h, r * a.ffn + c, gate * Gate(a.activation, gate).value * up);
    }
  }
}

void round_floats(Compute& compute, const RoundFloatsArgs& a) {
  for (int64_t i = 0; i < a.count; ++i) put(compute.dtype(), a.to, i, a.from[i]);
}

}  // namespace rl::testing::reference
