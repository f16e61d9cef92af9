// Elements of tensors as doubles, and the few formulas that several ops of the reference device
// share.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "ops/forward_ops.h"

namespace rl::testing::reference {

inline double get(Dtype t, const void* data, int64_t i) {
  if (t == Dtype::kF32) return static_cast<const float*>(data)[i];
  return to_float(static_cast<const bf16*>(data)[i]);
}
inline void put(Dtype t, void* data, int64_t i, double v) {
  if (t == Dtype::kF32)
    static_cast<float*>(data)[i] = static_cast<float>(v);
  else
    static_cast<bf16*>(data)[i] = to_bf16(static_cast<float>(v));
}
inline double rounded(Dtype t, double v) { return round_to(t, static_cast<float>(v)); }

template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(to_float(a[i])) * to_float(b[i]);
  return sum;
}

// Element (row, column) of the product x W^T; W as the header of this device says.
inline double product(Dtype t, const PackedMatrix& w, const void* x, int64_t row, int64_t column) {
  const int64_t k = w.shape().k;
  if (t == Dtype::kF32) {
    return dot(static_cast<const float*>(x) + row * k,
               reinterpret_cast<const float*>(w.data()) + column * k, k);
  }
  return dot(static_cast<const bf16*>(x) + row * k,
             reinterpret_cast<const bf16*>(w.data()) + column * k, k);
}

// RMSNorm over one row of n values (ops/rms_norm.h).
struct NormOfRow {
  NormWeight kind;
  float eps;
  const float* w;
  int64_t n;

  double weight(int64_t i) const { return w[i] + (kind == NormWeight::kMinusOne ? 1.0 : 0.0); }
  template <typename T>
  double inverse(const T* x) const {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
    return 1 / std::sqrt(sum / static_cast<double>(n) + eps);
  }
  // add_dx(i, gradient of x[i]) and add_dw(i, gradient of w[i]) for every element.
  template <typename Dy, typename AddDx, typename AddDw>
  void backward(const float* x, const Dy* dy, const AddDx& add_dx, const AddDw& add_dw) const {
    const double inv = inverse(x);
    double mean = 0;
    for (int64_t i = 0; i < n; ++i) mean += dy[i] * weight(i) * x[i];
    mean /= static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      add_dx(i, inv * (dy[i] * weight(i) - x[i] * inv * inv * mean));
      add_dw(i, static_cast<double>(dy[i]) * x[i] * inv);
    }
  }
};
inline NormOfRow norm_of(const RowNorm& norm, int64_t n) {
  return {norm.kind, norm.eps, norm.weight, n};
}

// act(z) = z gate(z), with gate(z) = sigmoid(s(z)); and the derivative of act (ops/glu.h).
struct Gate {
  Gate(Activation activation, double z) {
    const bool silu = activation == Activation::kSilu;
    const double scale = 2 * std::sqrt(2 / 3.14159265358979323846), cube = 0.044715;
    const double s = silu ? z : scale * (z + cube * z * z * z);
    const double slope_of_s = silu ? 1 : scale * (1 + 3 * cube * z * z);
    value = 1 / (1 + std::exp(-s));
    slope = value + z * value * (1 / (1 + std::exp(s))) * slope_of_s;
  }
  double value, slope;
};

// Keys and values of one layer, by position in a block table (ops/attention.h).
struct KvElements {
  const AttentionShape& shape;
  std::byte* pool;

  std::byte* head(int64_t block, int64_t kv_head) const {
    return pool + static_cast<uint64_t>(block * shape.kv_heads + kv_head) * shape.kv_head_bytes();
  }
  int64_t key_at(int64_t token, int64_t d) const { return d * shape.block_size + token; }
  int64_t value_at(int64_t token, int64_t d) const {
    return (shape.block_size + token) * shape.padded_dim() + d;
  }
  // The D components of a key or a value at a position.
  std::vector<double> key(const int32_t* blocks, int64_t kv_head, int64_t position) const {
    const int64_t token = position % shape.block_size;
    return read(head(blocks[position / shape.block_size], kv_head),
                [&](int64_t d) { return key_at(token, d); });
  }
  std::vector<double> value(const int32_t* blocks, int64_t kv_head, int64_t position) const {
    const int64_t token = position % shape.block_size;
    return read(head(blocks[position / shape.block_size], kv_head),
                [&](int64_t d) { return value_at(token, d); });
  }

 private:
  template <typename At>
  std::vector<double> read(const std::byte* from, const At& at) const {
    std::vector<double> out(static_cast<size_t>(shape.head_dim));
    for (int64_t d = 0; d < shape.head_dim; ++d)
      out[static_cast<size_t>(d)] = get(shape.kv_dtype, from, at(d));
    return out;
  }
};

// RoPE and the write of keys and values for every row and head (ops/rope_kv.h).
void write_heads(const RopeKvArgs& args);

}  // namespace rl::testing::reference
